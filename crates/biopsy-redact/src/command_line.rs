//! Command lines as lists of arguments: what text rules cannot see is where one argument ends.

use crate::counts::merge_hits;
use crate::pseudonym::masks_in;
use crate::scan::Span;
use crate::{Hit, Redactor};

/// Rule id of passwords behind short options.
const OPTION_RULE: &str = "command-password";

/// A command line without its secrets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RedactedCommand {
    /// As many arguments as before.
    pub args: Vec<String>,
    /// Which rules fired.
    pub hits: Vec<Hit>,
}

/// Short options that take a password, by program. `attached`: `-pSECRET`, and `-p` alone asks.
struct ShortOption {
    programs: &'static [&'static str],
    option: &'static str,
    attached: bool,
    /// The value is `user:password`: what stands between the two.
    behind: Option<char>,
    /// Only with this word among the first arguments.
    with: Option<&'static str>,
}

const fn option(
    programs: &'static [&'static str],
    option: &'static str,
    attached: bool,
    behind: Option<char>,
) -> ShortOption {
    ShortOption { programs, option, attached, behind, with: None }
}

impl ShortOption {
    fn is_of(&self, words: &[&str]) -> bool {
        self.programs.iter().any(|program| words.contains(program))
            && self.with.is_none_or(|word| words.contains(&word))
    }
}

const SHORT_OPTIONS: [ShortOption; 14] = [
    option(
        &[
            "mysql",
            "mysqldump",
            "mysqladmin",
            "mysqlimport",
            "mysqlcheck",
            "mysqlshow",
            "mysqlslap",
            "mysqlbinlog",
            "mysqlpump",
        ],
        "-p",
        true,
        None,
    ),
    option(
        &[
            "mariadb",
            "mariadb-dump",
            "mariadb-admin",
            "mariadb-check",
            "mariadb-import",
            "mariadb-backup",
            "xtrabackup",
        ],
        "-p",
        true,
        None,
    ),
    option(
        &["mongo", "mongosh", "mongodump", "mongorestore", "mongoexport", "mongoimport", "mongostat"],
        "-p",
        false,
        None,
    ),
    option(&["sshpass", "psexec", "psexec64"], "-p", false, None),
    ShortOption {
        with: Some("login"),
        ..option(&["docker", "podman", "nerdctl", "helm", "buildah", "skopeo", "oc"], "-p", false, None)
    },
    option(&["sshpass", "7z", "7za", "7zz"], "-p", true, None),
    option(&["sqlcmd", "osql", "bcp", "isql", "unzip", "zip", "cqlsh"], "-P", false, None),
    option(&["sqlcmd", "osql", "bcp"], "-P", true, None),
    option(&["redis-cli", "keydb-cli", "valkey-cli"], "-a", false, None),
    option(
        &["ldapsearch", "ldapmodify", "ldapadd", "ldapdelete", "ldappasswd", "ldapwhoami"],
        "-w",
        false,
        None,
    ),
    option(&["curl", "http", "https", "ab", "xh"], "-u", false, Some(':')),
    option(&["curl"], "--user", false, Some(':')),
    option(&["curl"], "--proxy-user", false, Some(':')),
    option(&["smbclient", "rpcclient", "smbget", "smbcacls", "net"], "-U", false, Some('%')),
];

impl Redactor {
    /// Masks what passwords and tokens a command line holds: in values of options, between arguments, and in the
    /// arguments themselves. What is found by an option's name is learned.
    #[must_use]
    pub fn command_line(&self, args: &[String]) -> RedactedCommand {
        let mut out: Vec<String> = Vec::with_capacity(args.len());
        let mut hits = Vec::new();
        let mut hide_next: Option<Hide> = None;
        // `sudo mysql -pX`: a program may stand behind others.
        let mut programs: Vec<&str> = Vec::new();
        for (index, arg) in args.iter().enumerate() {
            if index < 8 && !arg.starts_with('-') {
                let name = arg.rsplit(['/', '\\']).next().unwrap_or(arg);
                programs.push(name.strip_suffix(".exe").unwrap_or(name));
            }
            let hidden = hide_next
                .take()
                .filter(|hide| hide.applies(arg))
                .and_then(|hide| self.hide(&hide, arg, &mut hits));
            if let Some(hidden) = hidden {
                out.push(hidden);
                continue;
            }
            let next = args.get(index + 1).map(String::as_str);
            hide_next = self.announces(arg, next, &programs);
            let is_script = index.checked_sub(1).is_some_and(|before| announces_script(&args[before]));
            if let Some(hidden) = self.own_value(arg, &programs, is_script, &mut hits) {
                out.push(hidden);
                continue;
            }
            self.remember_of_process(arg.split_once('=').map_or(arg.as_str(), |(_, value)| value).as_bytes());
            let redacted = self.text(arg);
            merge_hits(&mut hits, &redacted.hits);
            out.push(redacted.text.into_owned());
        }
        self.between(&mut out, &mut hits);
        self.generated(&mut out, &mut hits);
        RedactedCommand { args: out, hits }
    }

    /// What the rules of text say about the line that somebody would have typed.
    fn between(&self, args: &mut [String], hits: &mut Vec<Hit>) {
        let line = args.join(" ");
        let mut spans = Vec::new();
        self.engine().find(line.as_bytes(), &masks_in(line.as_bytes()), &mut spans);
        let mut start = 0;
        for arg in args {
            let place = start..start + arg.len();
            start = place.end + 1;
            let inside = |span: &&Span| place.start <= span.range.start && span.range.end <= place.end;
            let Some(span) = spans.iter().filter(inside).max_by_key(|span| span.range.len()) else {
                continue;
            };
            let range = span.range.start - place.start..span.range.end - place.start;
            let (Some(value), Some(rule)) = (arg.get(range.clone()), span.rule) else { continue };
            // Another option is no value.
            let is_option = range.start == 0 && is_long_option(arg);
            if !is_option && masks_in(arg.as_bytes()).is_empty() {
                let rule = self.engine().rules()[rule].id.clone();
                self.learn_told(value.as_bytes());
                let mask = self.pseudonym(&rule, value);
                arg.replace_range(range, &mask);
                merge_hits(hits, &[Hit { rule, count: 1 }]);
            }
        }
    }

    /// Arguments that nobody would write by hand, whatever the program is: a password behind an option that no table has, or at its
    /// place.
    fn generated(&self, args: &mut [String], hits: &mut Vec<Hit>) {
        for arg in args.iter_mut().skip(1) {
            // `user:x1`, `user:x1@host`
            let from = arg.find(':').filter(|colon| is_user(&arg[..*colon])).map_or(0, |colon| colon + 1);
            let to = arg[from..].rfind('@').filter(|_| from > 0).map_or(arg.len(), |at| from + at);
            let value = &arg[from..to];
            if crate::made_up::is_generated(value.as_bytes()) && masks_in(arg.as_bytes()).is_empty() {
                self.learn_told(value.as_bytes());
                let mask = self.pseudonym(OPTION_RULE, value);
                arg.replace_range(from..to, &mask);
                merge_hits(hits, &[Hit { rule: OPTION_RULE.to_owned(), count: 1 }]);
            }
        }
    }

    /// Does this argument say that the next one is a secret?
    fn announces(&self, arg: &str, next: Option<&str>, programs: &[&str]) -> Option<Hide> {
        let next = next?;
        if let Some(short) =
            SHORT_OPTIONS.iter().find(|short| !short.attached && short.option == arg && short.is_of(programs))
        {
            return Some(Hide {
                rule: OPTION_RULE.to_owned(),
                from: match short.behind {
                    Some(sign) => next.find(sign)? + 1,
                    None => 0,
                },
            });
        }
        let name =
            arg.strip_prefix("--").or_else(|| arg.strip_prefix('-')).or_else(|| arg.strip_prefix('/'))?;
        let rule = self.engine().rule_for_name(name, next)?;
        Some(Hide { rule: self.engine().rules()[rule].id.clone(), from: 0 })
    }

    /// `--password=x`, `-pSECRET`, `/p:DbPassword=x`, `PGPASSWORD=x`: the argument with its value masked.
    fn own_value(
        &self,
        arg: &str,
        programs: &[&str],
        is_script: bool,
        hits: &mut Vec<Hit>,
    ) -> Option<String> {
        if let Some(short) = SHORT_OPTIONS.iter().find(|short| {
            short.attached
                && arg.len() > short.option.len()
                && arg.starts_with(short.option)
                && short.is_of(programs)
        }) {
            return self.hide(&Hide { rule: OPTION_RULE.to_owned(), from: short.option.len() }, arg, hits);
        }
        // `/password:x` of Windows
        let colon = arg.strip_prefix('/').and_then(|rest| rest.find(':')).map(|colon| colon + 1);
        let is_windows =
            |colon: &usize| arg[1..*colon].bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        let equals = colon.filter(|colon| is_windows(colon) && *colon > 1).or_else(|| arg.find('='))?;
        let start = arg[..equals].rfind([':', '/', '-']).map_or(0, |at| at + 1);
        let start = if arg[..equals].contains("--") {
            arg[..equals].rfind("--").map_or(start, |at| at + 2)
        } else {
            start
        };
        // `-Dname=x` and `-Pname=x` set what is called `name`.
        let is_define = start == 1 && arg.starts_with(['-']) && arg[1..equals].starts_with(['D', 'P']);
        let is_define = is_define && arg[2..equals].starts_with(|c: char| c.is_ascii_alphabetic());
        let start = start + usize::from(is_define);
        let (name, value) = (&arg[start..equals], &arg[equals + 1..]);
        // A whole command in one argument (`sh -c "X_TOKEN=a run"`) is text.
        let is_phrase = crate::phrase::is_phrase(value.as_bytes());
        let is_whole = is_phrase || !is_script && is_setting_with_blanks(&arg[..equals], value);
        if value.contains(char::is_whitespace) && !arg.starts_with('-') && !is_whole {
            return None;
        }
        let rule = self.engine().rule_for_name(name, value)?;
        self.hide(&Hide { rule: self.engine().rules()[rule].id.clone(), from: equals + 1 }, arg, hits)
    }

    /// Masks the end of an argument, and learns it. Nothing to do on what is masked already.
    fn hide(&self, hide: &Hide, arg: &str, hits: &mut Vec<Hit>) -> Option<String> {
        let (head, value) = arg.split_at_checked(hide.from)?;
        let lists = self.engine().lists();
        if crate::plausible::is_placeholder(value.as_bytes(), lists) {
            return None;
        }
        self.learn_told(value.as_bytes());
        merge_hits(hits, &[Hit { rule: hide.rule.clone(), count: 1 }]);
        Some(format!("{head}{}", self.pseudonym(&hide.rule, value)))
    }
}

/// `-c`, `-lc`, `/c`, `-Command`: the next argument is a command of its own.
fn announces_script(arg: &str) -> bool {
    let name = arg.trim_start_matches(['-', '/']);
    name.len() < arg.len()
        && (name.len() <= 4 && name.ends_with(['c', 'C'])
            || name.eq_ignore_ascii_case("command")
            || name.eq_ignore_ascii_case("eval"))
}

/// `PASSWORD=two words`: a name and all of its value, in which no command goes on and no further setting stands.
fn is_setting_with_blanks(name: &str, value: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.'))
        && !value.contains(['=', ';', '|', '&', '`', '\n', '/', '>', '<'])
        && !value.contains(" -")
}

/// Could it be the name of a user in front of a colon?
fn is_user(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

/// From which byte on an argument is hidden.
struct Hide {
    rule: String,
    from: usize,
}

impl Hide {
    /// Another option is no value.
    fn applies(&self, arg: &str) -> bool {
        !is_long_option(arg)
    }
}

/// `--verbose`
fn is_long_option(arg: &str) -> bool {
    arg.strip_prefix("--").is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))
}

#[cfg(test)]
mod tests;
