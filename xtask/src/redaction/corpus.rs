//! The corpus: kinds at places, the same in each run.

use super::case::{Case, Class, Input, line};
use super::encode::{Encoding, json};
use super::escape::fill;
use super::half::Half;
use super::kinds::{Form, Kind};
use super::memory;
use super::needle::Needle;
use super::places::{AllPlaces, Place, Places, half_of_place, kebab, upper};
use super::random::Random;
use super::shape::Value;
use super::wellformed::Format;
use super::wrapping::wrapped;

/// Places of its own half that a kind is written at, and of the other one.
const OWN: usize = 10;
const OTHER: usize = 2;
/// The same of encodings, and of places of copies.
const ENCODINGS: usize = 3;
const ECHOES: usize = 3;
/// Encodings that a half with tables of its own alone has.
const ENCODINGS_OF_OWN_TABLES: usize = 2;

/// Makes the cases of all kinds.
pub(super) fn make(seed: u64, kinds: &[Kind], places: &AllPlaces) -> Vec<Case> {
    let maker = |kind| Maker { seed, kind, places: places.of(kind.half) };
    kinds.iter().flat_map(|kind: &Kind| maker(kind).cases()).collect()
}

/// Makes the cases of one kind.
struct Maker<'c> {
    seed: u64,
    kind: &'c Kind,
    places: &'c Places,
}

/// Arguments of a program with a name and its value.
type WriteArguments = fn(&str, &str) -> Vec<String>;

/// How a text is written around a value: twice with the same sequence, once without the secret.
type Render<'r> = dyn Fn(&str, &mut Random) -> String + 'r;

impl Maker<'_> {
    fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        let has_key = !self.kind.keys.is_empty();
        if has_key {
            cases.extend(
                self.chosen("pair", &self.places.pair).filter_map(|(name, place)| self.pair(name, place)),
            );
            cases.extend(self.of_process());
            if !self.kind.common {
                cases.extend(self.repeated());
                cases.extend(self.repeated_encoded());
            }
        }
        match &self.kind.form {
            Form::Keyed => {}
            Form::Shaped => {
                let bare = |random: &mut Random| random.pick(&self.places.bare).clone();
                cases.extend(self.texts(Class::Shape, &bare));
            }
            Form::Texts(texts) => {
                cases.extend(self.texts(Class::Structure, &|random| random.pick(texts).clone()))
            }
            Form::Arguments(lists) => {
                let joined = |random: &mut Random| command(lists, random);
                cases.extend(self.texts(Class::Structure, &joined));
                cases.extend(lists.iter().enumerate().map(|(index, list)| self.arguments(index, list)));
            }
            Form::Block { text, rows, format } => {
                // Records have fewer places, and stand at each twice.
                for round in if *rows { &["", ", again"][..] } else { &[""] } {
                    let chosen = self.chosen("block", &self.places.block);
                    let chosen = chosen.filter(|(_, place)| place.takes_block(*rows));
                    cases.extend(chosen.map(|(name, place)| self.block(name, round, place, text, *format)));
                }
            }
        }
        cases.extend(self.encoded());
        if has_key {
            cases.extend(memory::cases(self.seed, self.kind));
        }
        cases
    }

    fn place_half(&self, name: &str) -> Half {
        half_of_place(self.kind.half, name)
    }

    fn random(&self, name: &str) -> Random {
        Random::named(self.seed, &[&self.kind.name, name])
    }

    /// Places of one sort for this kind.
    fn chosen<'p>(
        &self,
        sort: &str,
        places: &'p std::collections::BTreeMap<String, Place>,
    ) -> impl Iterator<Item = (&'p str, &'p Place)> + use<'p> {
        // Halves D to K ask first who takes it: of their many places few take records.
        let takes = |place: &Place| match (&self.kind.form, self.kind.half) {
            (
                Form::Block { rows, .. },
                Half::D | Half::E | Half::RestOfE | Half::F | Half::G | Half::H | Half::I | Half::J | Half::K,
            ) => place.takes_block(*rows),
            _ => true,
        };
        let (own, other) = places
            .iter()
            .map(|(name, place)| (name.as_str(), place))
            .filter(|(_, place)| takes(place))
            .partition(|(name, _)| self.place_half(name) == self.kind.half);
        let mut random = self.random(sort);
        let count = if self.kind.half.has_own_tables() { OWN + OTHER } else { OWN };
        let own: Vec<_> = random.some(own, count);
        let other: Vec<_> = random.some(other, OTHER);
        own.into_iter().chain(other)
    }

    /// A value with a name that a place takes; several are tried.
    fn named_value(
        &self,
        random: &mut Random,
        takes: impl Fn(&str, &str) -> bool,
    ) -> Option<(String, Value)> {
        (0..8).find_map(|_| {
            let key = random.pick(&self.kind.keys).clone();
            let value = self.kind.make(random);
            takes(&key, &value.text).then_some((key, value))
        })
    }

    fn pair(&self, name: &str, place: &Place) -> Option<Case> {
        let mut random = self.random(name);
        let (key, value) = self.named_value(&mut random, |key, value| place.takes_pair(key, value))?;
        let render = |value: &str, random: &mut Random| place.pair(&key, value, random);
        let case =
            self.case(Class::Key, name, self.place_half(name), &value, &render, Encoding::Plain, &mut random);
        let needle = Needle::new(&value.secret, &place.written(&value.secret), Encoding::Plain);
        Some(Case { needle, format: Some(place.format), ..case })
    }

    fn texts(&self, class: Class, template: &dyn Fn(&mut Random) -> String) -> Vec<Case> {
        let make = |(name, place): (&str, &Place)| {
            let mut random = self.random(name);
            let template = fill(&template(&mut random), &mut random);
            let value = self.kind.make(&mut random);
            place.takes_text(&value.text).then(|| {
                let render = |value: &str, random: &mut Random| {
                    place.text(&template.replace("{secret}", value), random)
                };
                let case = self.case(
                    class,
                    name,
                    self.place_half(name),
                    &value,
                    &render,
                    Encoding::Plain,
                    &mut random,
                );
                let needle = Needle::new(&value.secret, &place.written(&value.secret), Encoding::Plain);
                Case { needle, format: Some(place.format), ..case }
            })
        };
        self.chosen("text", &self.places.text).filter_map(make).collect()
    }

    fn block(&self, name: &str, round: &str, place: &Place, text: &str, format: Format) -> Case {
        let mut random = self.random(&format!("{name}{round}"));
        let template = fill(text, &mut random);
        let value = self.kind.make(&mut random);
        let render =
            |value: &str, random: &mut Random| place.block(&template.replace("{secret}", value), random);
        let case = self.case(
            Class::Structure,
            name,
            self.place_half(name),
            &value,
            &render,
            Encoding::Plain,
            &mut random,
        );
        let format = if place.keeps_blocks() { format } else { place.format };
        // A key of many lines may become one mask, where its lines are not records of a log.
        let is_one_value =
            format == Format::Lines && value.secret.contains('\n') && !place.has_line_records();
        Case { format: (!is_one_value).then_some(format), ..case }
    }

    fn arguments(&self, index: usize, list: &[String]) -> Case {
        let place = format!("arguments {index}");
        let mut random = self.random(&place);
        let value = self.kind.make(&mut random);
        let filled: Vec<String> = list.iter().map(|word| fill(word, &mut random)).collect();
        let with = |secret: &str| {
            Input::Arguments(filled.iter().map(|word| word.replace("{secret}", secret)).collect())
        };
        self.of_input(Class::Arguments, &place, &value, &with)
    }

    /// Arguments and environment of a process.
    fn of_process(&self) -> Vec<Case> {
        let of_c: [(&str, WriteArguments); 3] = [
            ("option with a colon", |key, value| {
                vec!["app.exe".into(), format!("/{}:{value}", kebab(key)), "/q".into()]
            }),
            ("assignment", |key, value| vec!["env".into(), format!("{}={value}", upper(key)), "app".into()]),
            ("option of one dash", |key, value| {
                vec!["app".into(), format!("-{}", kebab(key)), value.into(), "-listen".into(), ":80".into()]
            }),
        ];
        let forms: [(&str, WriteArguments); 3] = [
            ("option-equals", |key, value| {
                vec!["app".into(), format!("--{}={value}", kebab(key)), "-v".into()]
            }),
            ("option-next", |key, value| {
                vec!["app".into(), format!("--{}", kebab(key)), value.into(), "run".into()]
            }),
            ("setting", |key, value| {
                vec!["java".into(), format!("-D{key}={value}"), "-jar".into(), "a.jar".into()]
            }),
        ];
        let of_d: [(&str, WriteArguments); 3] = [
            ("words of a setting", |key, value| {
                vec!["app".into(), "config".into(), "set".into(), key.into(), value.into()]
            }),
            ("setting behind an option", |key, value| {
                vec!["app".into(), "-o".into(), format!("{key}={value}"), "start".into()]
            }),
            ("JSON in an option", |key, value| {
                vec!["app".into(), "--config".into(), format!("{{\"{key}\":\"{}\"}}", json(value))]
            }),
        ];
        let of_e: [(&str, WriteArguments); 3] = [
            ("property of an installer", |key, value| {
                vec!["msiexec".into(), "/i".into(), "a.msi".into(), format!("{}={value}", upper(key))]
            }),
            ("variable of a container to start", |key, value| {
                vec![
                    "docker".into(),
                    "run".into(),
                    "-e".into(),
                    format!("{}={value}", upper(key)),
                    "a".into(),
                ]
            }),
            ("setting behind a long option", |key, value| {
                vec!["app".into(), "--set".into(), format!("{key}={value}"), "install".into()]
            }),
        ];
        let of_f: [(&str, WriteArguments); 3] = [
            ("variable of a shell", |key, value| {
                let word = value.replace('\'', "'\\''");
                vec!["sh".into(), "-c".into(), format!("export {}='{word}'; exec app", upper(key))]
            }),
            ("option of a file of variables", |key, value| {
                vec!["app".into(), "start".into(), format!("--env={}={value}", upper(key)), "-d".into()]
            }),
            ("setting with a path", |key, value| {
                vec!["app".into(), "-c".into(), format!("shop.main.{key}={value}"), "--once".into()]
            }),
        ];
        let of_g: [(&str, WriteArguments); 3] = [
            ("command of a login shell", |key, value| {
                let word = value.replace('\'', "'\\''");
                vec!["bash".into(), "-lc".into(), format!("app --{} '{word}' --once", kebab(key))]
            }),
            ("setting of a chart", |key, value| {
                let setting = format!("auth.{key}={value}");
                vec![
                    "helm".into(),
                    "upgrade".into(),
                    "shop".into(),
                    ".".into(),
                    "--set-string".into(),
                    setting,
                ]
            }),
            ("variable in front of a program", |key, value| {
                vec![
                    "sudo".into(),
                    "-E".into(),
                    "env".into(),
                    format!("{}={value}", upper(key)),
                    "app".into(),
                ]
            }),
        ];
        let of_h: [(&str, WriteArguments); 3] = [
            ("argument of Spring Boot", |key, value| {
                vec![
                    "java".into(),
                    "-Xmx1g".into(),
                    "-jar".into(),
                    "shop.jar".into(),
                    format!("--shop.{key}={value}"),
                ]
            }),
            ("section of settings behind an option", |key, value| {
                vec![
                    "dotnet".into(),
                    "Shop.Api.dll".into(),
                    format!("--Shop:{key}"),
                    value.into(),
                    "--urls".into(),
                    "http://*:80".into(),
                ]
            }),
            ("variable behind a long option", |key, value| {
                vec![
                    "podman".into(),
                    "run".into(),
                    "--env".into(),
                    format!("{}={value}", upper(key)),
                    "a".into(),
                ]
            }),
        ];
        let of_i: [(&str, WriteArguments); 3] = [
            ("variable of a unit to run", |key, value| {
                vec!["systemd-run".into(), format!("--setenv={}={value}", upper(key)), "app".into()]
            }),
            ("option of a script", |key, value| {
                vec![
                    "python3".into(),
                    "manage.py".into(),
                    "sync".into(),
                    format!("--{}={value}", kebab(key)),
                    "--all".into(),
                ]
            }),
            ("property of a build", |key, value| {
                vec![
                    "dotnet".into(),
                    "publish".into(),
                    "-c".into(),
                    "Release".into(),
                    format!("-p:{key}={value}"),
                ]
            }),
        ];
        let of_j: [(&str, WriteArguments); 3] = [
            ("flag of a service of Go", |key, value| {
                vec!["/opt/shop/shopd".into(), "-listen=:80".into(), format!("-{}={value}", kebab(key))]
            }),
            ("literal of a secret to create", |key, value| {
                vec![
                    "kubectl".into(),
                    "create".into(),
                    "secret".into(),
                    "generic".into(),
                    "shop".into(),
                    format!("--from-literal={key}={value}"),
                ]
            }),
            ("extra variable of a playbook", |key, value| {
                vec![
                    "ansible-playbook".into(),
                    "site.yml".into(),
                    "--extra-vars".into(),
                    format!("{key}={value}"),
                    "--diff".into(),
                ]
            }),
        ];
        let of_k: [(&str, WriteArguments); 3] = [
            ("variable of a deployment", |key, value| {
                vec![
                    "kubectl".into(),
                    "set".into(),
                    "env".into(),
                    "deployment/shop".into(),
                    format!("{}={value}", upper(key)),
                ]
            }),
            ("variable of a plan", |key, value| {
                let name = kebab(key).replace('-', "_");
                vec![
                    "terraform".into(),
                    "apply".into(),
                    "-auto-approve".into(),
                    "-var".into(),
                    format!("{name}={value}"),
                ]
            }),
            ("parameter of a stack", |key, value| {
                vec![
                    "aws".into(),
                    "cloudformation".into(),
                    "deploy".into(),
                    "--parameter-overrides".into(),
                    format!("{key}={value}"),
                    "Stage=prod".into(),
                ]
            }),
        ];
        let mut cases = Vec::new();
        let forms = match self.kind.half {
            Half::C => of_c,
            Half::D => of_d,
            Half::E | Half::RestOfE => of_e,
            Half::F => of_f,
            Half::G => of_g,
            Half::H => of_h,
            Half::I => of_i,
            Half::J => of_j,
            Half::K => of_k,
            Half::A | Half::B | Half::Mixed => forms,
        };
        for (place, form) in forms {
            let mut random = self.random(place);
            if let Some((key, value)) =
                self.named_value(&mut random, |key, _| key.is_ascii() && !key.contains(' '))
            {
                cases.push(
                    self.of_input(Class::Arguments, place, &value, &|value| {
                        Input::Arguments(form(&key, value))
                    }),
                );
            }
        }
        for place in ["variable", "variable of a container"] {
            let mut random = self.random(place);
            if let Some((key, value)) = self.named_value(&mut random, |key, _| key.is_ascii()) {
                let with = |value: &str| Input::Variable { name: upper(&key), value: value.to_owned() };
                cases.push(self.of_input(Class::Environment, place, &value, &with));
            }
        }
        cases
    }

    /// A value that is masked with its name, and stands elsewhere without it.
    fn repeated(&self) -> Vec<Case> {
        let orders = ["file behind", "file before", "line behind", "line before"];
        let make = |(index, (name, echo)): (usize, (&str, &Place))| {
            let order = orders[index % orders.len()];
            let mut random = self.random(&format!("echo {name}"));
            let takes = |_: &str, value: &str| echo.takes_text(value);
            let (key, value) = self.named_value(&mut random, takes)?;
            let source = source(&key);
            let (source, bare) = (source.replace("{value}", &value.text), source.replace("{value}", ""));
            let text = echo.text(&value.secret, &mut random.clone());
            let background = echo.text("", &mut random);
            let (documents, scored) = match order {
                "file behind" => (vec![source.clone(), text], 1),
                "file before" => (vec![text, source.clone()], 0),
                "line behind" => (vec![format!("{source}{text}")], 0),
                _ => (vec![format!("{text}{source}")], 0),
            };
            Some(Case {
                needle: Needle::new(&value.secret, &echo.written(&value.secret), Encoding::Plain),
                source: Some((source.into_bytes(), bare.clone().into_bytes())),
                ..self.bare_case(
                    Class::Repeated,
                    &format!("{name}, {order}"),
                    self.kind.half.both(self.place_half(name)),
                    documents.into_iter().map(|text| Input::Text(text.into_bytes())).collect(),
                    scored,
                    format!("{bare}{background}").into_bytes(),
                )
            })
        };
        let echoes = self.chosen("echo", &self.places.echo).take(OWN).collect::<Vec<_>>();
        let echoes = self.random("echoes").some(echoes, ECHOES);
        echoes.into_iter().enumerate().filter_map(make).collect()
    }

    fn encodings(&self, sort: &str) -> Vec<(&'static str, Encoding)> {
        let mut random = self.random(sort);
        // Most of its own ones; what all halves have in common is as common in it.
        let held_out = |own: &[_], common: Vec<_>, random: &mut Random| {
            let own = random.some(own.to_vec(), ENCODINGS_OF_OWN_TABLES);
            let common = random.some(common, ENCODINGS - 1);
            own.into_iter().chain(common).collect()
        };
        match self.kind.half {
            Half::C => return held_out(&Encoding::OF_C, Encoding::ALL.to_vec(), &mut random),
            Half::E | Half::RestOfE => {
                let others = Encoding::OF_C.into_iter().chain(Encoding::OF_D);
                let common = Encoding::ALL.into_iter().chain(others).collect();
                return held_out(&Encoding::OF_E, common, &mut random);
            }
            Half::F => {
                let others = Encoding::OF_C.into_iter().chain(Encoding::OF_D).chain(Encoding::OF_E);
                let common = Encoding::ALL.into_iter().chain(others).collect();
                return held_out(&Encoding::OF_F, common, &mut random);
            }
            Half::D => {
                let common = Encoding::ALL.into_iter().chain(Encoding::OF_C).collect();
                return held_out(&Encoding::OF_D, common, &mut random);
            }
            // What is ordinary first: half of its encodings are the common ones.
            Half::G | Half::H | Half::I | Half::J | Half::K => {
                let rarer = Encoding::OF_C.into_iter().chain(Encoding::OF_D).chain(Encoding::OF_E);
                let rarer = rarer.chain(Encoding::OF_F).collect();
                return held_out(&Encoding::ALL, rarer, &mut random);
            }
            Half::A | Half::B | Half::Mixed => {}
        }
        let (own, other) =
            Encoding::ALL.iter().copied().partition(|(name, _)| self.place_half(name) == self.kind.half);
        let own: Vec<_> = random.some(own, ENCODINGS);
        own.into_iter().chain(random.some(other, 1)).collect()
    }

    fn repeated_encoded(&self) -> Vec<Case> {
        let make = |(name, encoding): (&str, Encoding)| {
            let mut random = self.random(&format!("echo in {name}"));
            let (key, value) = self.named_value(&mut random, |_, value| value.len() >= 8)?;
            let source = source(&key);
            let (source, bare) = (source.replace("{value}", &value.text), source.replace("{value}", ""));
            let text = wrapped(encoding, &value.secret, &mut random.clone());
            Some(Case {
                needle: Needle::new(&value.secret, &value.secret, encoding),
                source: Some((source.clone().into_bytes(), bare.into_bytes())),
                ..self.bare_case(
                    Class::RepeatedEncoded,
                    name,
                    self.kind.half.both(self.place_half(name)),
                    vec![Input::Text(source.into_bytes()), Input::Text(text)],
                    1,
                    wrapped(encoding, "?", &mut random),
                )
            })
        };
        self.encodings("echo encodings").into_iter().filter_map(make).collect()
    }

    /// A text with the secret, encoded as a whole.
    fn encoded(&self) -> Vec<Case> {
        let make = |(name, encoding): (&str, Encoding)| {
            let mut random = self.random(&format!("in {name}"));
            let value = self.kind.make(&mut random);
            let template = self.template(&mut random);
            let render = |value: &str, random: &mut Random| {
                wrapped(encoding, &template.replace("{secret}", value), random)
            };
            let text = render(&value.text, &mut random.clone());
            let background = render(&value.text.replace(&value.secret, "?"), &mut random);
            Case {
                needle: Needle::new(&value.secret, &value.secret, encoding),
                ..self.bare_case(
                    Class::Encoded,
                    name,
                    self.kind.half.both(self.place_half(name)),
                    vec![Input::Text(text)],
                    0,
                    background,
                )
            }
        };
        self.encodings("encodings").into_iter().map(make).collect()
    }

    /// A text that says by itself what the secret in it is.
    fn template(&self, random: &mut Random) -> String {
        let keyed = |random: &mut Random| {
            let key = random.pick(&self.kind.keys).clone();
            let forms =
                ["user=app;{key}={secret};port=1", "{key}={secret}", "user: app\n{key}: {secret}\nport: 1\n"];
            random.pick(&forms).replace("{key}", &key)
        };
        let template = match &self.kind.form {
            Form::Shaped if random.below(2) == 0 => random.pick(&self.places.bare).clone(),
            Form::Shaped | Form::Keyed => keyed(random),
            Form::Texts(texts) => random.pick(texts).clone(),
            Form::Arguments(lists) => command(lists, random),
            Form::Block { text, .. } => text.clone(),
        };
        fill(&template, random)
    }

    fn of_input(&self, class: Class, place: &str, value: &Value, with: &dyn Fn(&str) -> Input) -> Case {
        let background = with(&value.text.replace(&value.secret, "")).bytes();
        let half = self.kind.half.both(self.place_half(place));
        Case {
            needle: Needle::new(&value.secret, &value.secret, Encoding::Plain),
            ..self.bare_case(class, place, half, vec![with(&value.text)], 0, background)
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "each is one thing of the case, and all callers are in this file"
    )]
    fn case(
        &self,
        class: Class,
        place: &str,
        half: Half,
        value: &Value,
        render: &Render<'_>,
        encoding: Encoding,
        random: &mut Random,
    ) -> Case {
        let text = render(&value.text, &mut random.clone());
        let background = render(&value.text.replace(&value.secret, ""), random);
        let half = self.kind.half.both(half);
        Case {
            needle: Needle::new(&value.secret, &value.secret, encoding),
            ..self.bare_case(
                class,
                place,
                half,
                vec![Input::Text(text.into_bytes())],
                0,
                background.into_bytes(),
            )
        }
    }

    fn bare_case(
        &self,
        class: Class,
        place: &str,
        half: Half,
        bundle: Vec<Input>,
        scored: usize,
        background: Vec<u8>,
    ) -> Case {
        Case {
            kind: self.kind.name.clone(),
            place: place.to_owned(),
            half,
            class,
            bundle,
            scored,
            background,
            needle: Needle::new("", "", Encoding::Plain),
            source: None,
            format: None,
            may_change: Vec::new(),
        }
    }
}

/// One of several commands as one would type it; the secret comes later.
fn command(lists: &[Vec<String>], random: &mut Random) -> String {
    let list = random.pick::<Vec<String>>(lists);
    let words: Vec<String> =
        list.iter().map(|word| fill(word, random).replace("{secret}", "SECRET")).collect();
    line(&words).replace("SECRET", "{secret}")
}

/// Where a value stands with its name, in a form that everybody knows.
fn source(key: &str) -> String {
    format!("{{\"settings\":{{\"host\":\"db1\",\"{key}\":\"{{value}}\"}}}}\n")
}
