//! Secrets in the memory of a process: what it was started with, texts of its heap, and copies without a name.

use std::ops::Range;

use super::case::{Case, Class, Input};
use super::encode::{Encoding, STANDARD, base64, json, percent, wide};
use super::half::Half;
use super::kinds::{Form, Kind};
use super::needle::Needle;
use super::places::{half_of_place, kebab, upper};
use super::random::Random;
use super::shape::Value;

/// Where it stands in memory, and whether environment or arguments told it before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spot {
    Environment,
    Arguments,
    HeapPair,
    HeapJsonWide,
    HeapBare,
    HeapBareWide,
    CopyOfVariable,
    CopyOfVariableWide,
    CopyOfArgument,
    CopyInText,
    EnvironmentWide,
    ArgumentsApart,
    HeapSettings,
    HeapQuery,
    HeapYamlWide,
    HeapBareBehindLength,
    CopyOfArgumentWide,
    CopyOfArgumentApart,
    CopyBetweenQuotes,
    EnvironmentOfChild,
    ArgumentsOneDash,
    HeapHeader,
    HeapVariables,
    HeapDictionary,
    HeapBareOfDotNet,
    CopyInAddress,
    CopyInJsonWide,
    CopyInBasic,
    CopyOfVariableBehindLength,
    HeapUnit,
    HeapXmlWide,
    HeapSemicolons,
    HeapGoMap,
    HeapRubyHash,
    HeapBareOfJava,
    CopyInRedisCommand,
    CopyInSql,
    CopyInLogWide,
    CopyOfVariableOfJava,
    HeapTwoStrings,
    HeapNameAndValueWide,
    HeapYamlList,
    HeapMultipart,
    HeapPhpSerialized,
    HeapCommandLineWide,
    HeapBareInProtobuf,
    CopyInSaslPlain,
    CopyInPercentAddress,
    CopyOfArgumentOfDotNet,
    HeapForm,
    HeapConnectionWide,
    HeapObject,
    HeapEntry,
    HeapCookie,
    HeapBareInLine,
    CopyInBearer,
    CopyInWebSocket,
    CopyInUrlWide,
    CopyInCommand,
    HeapYamlSection,
    HeapJsonSection,
    HeapSqlSetting,
    HeapEnvironmentFileWide,
    HeapBson,
    HeapBareInArray,
    CopyInPasswordMessage,
    CopyInLoginOfMail,
    CopyInErrorWide,
    CopyOfArgumentInMessagePack,
    HeapJsonInJson,
    HeapLogfmt,
    HeapPropertiesWide,
    HeapShellLine,
    HeapFastCgi,
    HeapBareInMessage,
    CopyInCookie,
    CopyInListWide,
    CopyOfVariableOfPython,
    CopyOfArgumentInJsonRpc,
}

const SPOTS: [(&str, Spot); 10] = [
    ("environment block", Spot::Environment),
    ("argument block", Spot::Arguments),
    ("heap, name and value", Spot::HeapPair),
    ("heap, JSON as UTF-16", Spot::HeapJsonWide),
    ("heap, alone", Spot::HeapBare),
    ("heap, alone as UTF-16", Spot::HeapBareWide),
    ("copy of a variable", Spot::CopyOfVariable),
    ("copy of a variable as UTF-16", Spot::CopyOfVariableWide),
    ("copy of an argument", Spot::CopyOfArgument),
    ("copy in a text", Spot::CopyInText),
];

/// The same of half C.
const SPOTS_OF_C: [(&str, Spot); 9] = [
    ("environment block as UTF-16", Spot::EnvironmentWide),
    ("argument block, name and value apart", Spot::ArgumentsApart),
    ("heap, settings", Spot::HeapSettings),
    ("heap, query string", Spot::HeapQuery),
    ("heap, YAML as UTF-16", Spot::HeapYamlWide),
    ("heap, alone behind its length", Spot::HeapBareBehindLength),
    ("copy of an argument as UTF-16", Spot::CopyOfArgumentWide),
    ("copy of an argument behind its name", Spot::CopyOfArgumentApart),
    ("copy between quotes", Spot::CopyBetweenQuotes),
];

/// The same of half D.
const SPOTS_OF_D: [(&str, Spot); 10] = [
    ("environment of a child", Spot::EnvironmentOfChild),
    ("argument block, one dash", Spot::ArgumentsOneDash),
    ("heap, header of a request", Spot::HeapHeader),
    ("heap, list of variables", Spot::HeapVariables),
    ("heap, dictionary of Python", Spot::HeapDictionary),
    ("heap, alone as a string of .NET", Spot::HeapBareOfDotNet),
    ("copy in an address", Spot::CopyInAddress),
    ("copy in JSON as UTF-16", Spot::CopyInJsonWide),
    ("copy in a basic authorization", Spot::CopyInBasic),
    ("copy of a variable behind its length", Spot::CopyOfVariableBehindLength),
];

/// The same of half E.
const SPOTS_OF_E: [(&str, Spot); 10] = [
    ("heap, lines of a unit", Spot::HeapUnit),
    ("heap, XML as UTF-16", Spot::HeapXmlWide),
    ("heap, settings between semicolons", Spot::HeapSemicolons),
    ("heap, map of Go", Spot::HeapGoMap),
    ("heap, hash of Ruby", Spot::HeapRubyHash),
    ("heap, alone as bytes of Java", Spot::HeapBareOfJava),
    ("copy in a command of Redis", Spot::CopyInRedisCommand),
    ("copy of an argument in SQL", Spot::CopyInSql),
    ("copy in a line of a log as UTF-16", Spot::CopyInLogWide),
    ("copy of a variable as bytes of Java", Spot::CopyOfVariableOfJava),
];

/// The same of half F.
const SPOTS_OF_F: [(&str, Spot); 10] = [
    ("heap, name and value as two strings", Spot::HeapTwoStrings),
    ("heap, name and value as strings of .NET", Spot::HeapNameAndValueWide),
    ("heap, list of names and values", Spot::HeapYamlList),
    ("heap, part of a form", Spot::HeapMultipart),
    ("heap, array as PHP writes it", Spot::HeapPhpSerialized),
    ("heap, command line as UTF-16", Spot::HeapCommandLineWide),
    ("heap, alone as a field of protobuf", Spot::HeapBareInProtobuf),
    ("copy in SASL's PLAIN", Spot::CopyInSaslPlain),
    ("copy in an address, in percent", Spot::CopyInPercentAddress),
    ("copy of an argument as a string of .NET", Spot::CopyOfArgumentOfDotNet),
];

/// The same of half G.
const SPOTS_OF_G: [(&str, Spot); 10] = [
    ("heap, body of a form", Spot::HeapForm),
    ("heap, connection string as UTF-16", Spot::HeapConnectionWide),
    ("heap, object as a program prints it", Spot::HeapObject),
    ("heap, entry with key and value", Spot::HeapEntry),
    ("heap, cookie of a request", Spot::HeapCookie),
    ("heap, alone in a line of a log", Spot::HeapBareInLine),
    ("copy in a bearer authorization", Spot::CopyInBearer),
    ("copy in a message of a socket", Spot::CopyInWebSocket),
    ("copy in an address as UTF-16", Spot::CopyInUrlWide),
    ("copy of an argument in a command", Spot::CopyInCommand),
];

/// The same of half H.
const SPOTS_OF_H: [(&str, Spot); 10] = [
    ("heap, section of YAML", Spot::HeapYamlSection),
    ("heap, section of JSON", Spot::HeapJsonSection),
    ("heap, setting of SQL", Spot::HeapSqlSetting),
    ("heap, file of variables as UTF-16", Spot::HeapEnvironmentFileWide),
    ("heap, element of BSON", Spot::HeapBson),
    ("heap, alone in an array", Spot::HeapBareInArray),
    ("copy in a message of PostgreSQL", Spot::CopyInPasswordMessage),
    ("copy in SMTP's LOGIN", Spot::CopyInLoginOfMail),
    ("copy in an error as UTF-16", Spot::CopyInErrorWide),
    ("copy of an argument in MessagePack", Spot::CopyOfArgumentInMessagePack),
];

/// The same of half I.
const SPOTS_OF_I: [(&str, Spot); 10] = [
    ("heap, JSON in JSON", Spot::HeapJsonInJson),
    ("heap, words of a log", Spot::HeapLogfmt),
    ("heap, properties as UTF-16", Spot::HeapPropertiesWide),
    ("heap, line of a shell", Spot::HeapShellLine),
    ("heap, parameter of FastCGI", Spot::HeapFastCgi),
    ("heap, alone in a message of JSON", Spot::HeapBareInMessage),
    ("copy in a cookie", Spot::CopyInCookie),
    ("copy in a list as UTF-16", Spot::CopyInListWide),
    ("copy of a variable as a string of Python", Spot::CopyOfVariableOfPython),
    ("copy of an argument in a call of JSON", Spot::CopyOfArgumentInJsonRpc),
];

/// Spots that each kind is planted at.
const OF_EACH_KIND: usize = 5;

/// Some of the spots that fit a kind with names.
pub(super) fn cases(seed: u64, kind: &Kind) -> Vec<Case> {
    let is_shaped = matches!(kind.form, Form::Shaped);
    let Some(key) = kind.keys.iter().find(|key| key.is_ascii() && !key.contains([' ', '\''])) else {
        return Vec::new();
    };
    let fits = |spot: Spot| match spot {
        Spot::HeapBare
        | Spot::HeapBareWide
        | Spot::HeapBareBehindLength
        | Spot::HeapBareOfDotNet
        | Spot::HeapBareOfJava
        | Spot::HeapBareInProtobuf
        | Spot::HeapBareInLine
        | Spot::HeapBareInArray
        | Spot::HeapBareInMessage => is_shaped,
        Spot::CopyOfVariable
        | Spot::CopyOfVariableWide
        | Spot::CopyOfArgument
        | Spot::CopyInText
        | Spot::CopyOfArgumentWide
        | Spot::CopyOfArgumentApart
        | Spot::CopyBetweenQuotes
        | Spot::CopyInAddress
        | Spot::CopyInJsonWide
        | Spot::CopyInBasic
        | Spot::CopyOfVariableBehindLength
        | Spot::CopyInRedisCommand
        | Spot::CopyInSql
        | Spot::CopyInLogWide
        | Spot::CopyOfVariableOfJava
        | Spot::CopyInSaslPlain
        | Spot::CopyInPercentAddress
        | Spot::CopyOfArgumentOfDotNet
        | Spot::CopyInBearer
        | Spot::CopyInWebSocket
        | Spot::CopyInUrlWide
        | Spot::CopyInCommand
        | Spot::CopyInPasswordMessage
        | Spot::CopyInLoginOfMail
        | Spot::CopyInErrorWide
        | Spot::CopyOfArgumentInMessagePack
        | Spot::CopyInCookie
        | Spot::CopyInListWide
        | Spot::CopyOfVariableOfPython
        | Spot::CopyOfArgumentInJsonRpc => !kind.common,
        Spot::Environment
        | Spot::Arguments
        | Spot::HeapPair
        | Spot::HeapJsonWide
        | Spot::EnvironmentWide
        | Spot::ArgumentsApart
        | Spot::HeapSettings
        | Spot::HeapQuery
        | Spot::HeapYamlWide
        | Spot::EnvironmentOfChild
        | Spot::ArgumentsOneDash
        | Spot::HeapHeader
        | Spot::HeapVariables
        | Spot::HeapDictionary
        | Spot::HeapUnit
        | Spot::HeapXmlWide
        | Spot::HeapSemicolons
        | Spot::HeapGoMap
        | Spot::HeapRubyHash
        | Spot::HeapTwoStrings
        | Spot::HeapNameAndValueWide
        | Spot::HeapYamlList
        | Spot::HeapMultipart
        | Spot::HeapPhpSerialized
        | Spot::HeapCommandLineWide
        | Spot::HeapForm
        | Spot::HeapConnectionWide
        | Spot::HeapObject
        | Spot::HeapEntry
        | Spot::HeapCookie
        | Spot::HeapYamlSection
        | Spot::HeapJsonSection
        | Spot::HeapSqlSetting
        | Spot::HeapEnvironmentFileWide
        | Spot::HeapBson
        | Spot::HeapJsonInJson
        | Spot::HeapLogfmt
        | Spot::HeapPropertiesWide
        | Spot::HeapShellLine
        | Spot::HeapFastCgi => true,
    };
    let all = match kind.half {
        Half::C => &SPOTS_OF_C[..],
        Half::D => &SPOTS_OF_D[..],
        Half::E | Half::RestOfE => &SPOTS_OF_E[..],
        Half::F => &SPOTS_OF_F[..],
        Half::G => &SPOTS_OF_G[..],
        Half::H => &SPOTS_OF_H[..],
        Half::I => &SPOTS_OF_I[..],
        Half::A | Half::B | Half::Mixed => &SPOTS[..],
    };
    let spots: Vec<_> = all.iter().filter(|(_, spot)| fits(*spot)).collect();
    let chosen = Random::named(seed, &[&kind.name, "memory"]).some(spots, OF_EACH_KIND);
    chosen
        .into_iter()
        .map(|(name, spot)| case(kind, key, name, *spot, &mut Random::named(seed, &[&kind.name, name])))
        .collect()
}

fn case(kind: &Kind, key: &str, place: &str, spot: Spot, random: &mut Random) -> Case {
    let value = kind.make(random);
    let mut environment =
        vec![("LANG".to_owned(), "C.UTF-8".to_owned()), ("HOME".to_owned(), "/srv/shop".to_owned())];
    let mut arguments = vec!["/usr/bin/shop".to_owned(), "--port".to_owned(), "8080".to_owned()];
    match spot {
        Spot::Environment
        | Spot::EnvironmentWide
        | Spot::CopyOfVariable
        | Spot::CopyOfVariableWide
        | Spot::CopyInText
        | Spot::CopyBetweenQuotes
        | Spot::CopyInAddress
        | Spot::CopyInJsonWide
        | Spot::CopyInBasic
        | Spot::CopyOfVariableBehindLength
        | Spot::CopyInRedisCommand
        | Spot::CopyInLogWide
        | Spot::CopyOfVariableOfJava
        | Spot::CopyInSaslPlain
        | Spot::CopyInPercentAddress
        | Spot::CopyInBearer
        | Spot::CopyInWebSocket
        | Spot::CopyInPasswordMessage
        | Spot::CopyInLoginOfMail
        | Spot::CopyInErrorWide
        | Spot::CopyInCookie
        | Spot::CopyInListWide
        | Spot::CopyOfVariableOfPython => environment.push((upper(key), value.text.clone())),
        Spot::Arguments
        | Spot::CopyOfArgument
        | Spot::CopyOfArgumentWide
        | Spot::CopyInSql
        | Spot::CopyOfArgumentOfDotNet
        | Spot::CopyInUrlWide
        | Spot::CopyInCommand
        | Spot::CopyOfArgumentInMessagePack
        | Spot::CopyOfArgumentInJsonRpc => {
            arguments.push(format!("--{}={}", kebab(key), value.text));
        }
        Spot::ArgumentsApart | Spot::CopyOfArgumentApart => {
            arguments.extend([format!("--{}", kebab(key)), value.text.clone()]);
        }
        Spot::ArgumentsOneDash => arguments.extend([format!("-{}", kebab(key)), value.text.clone()]),
        Spot::HeapPair
        | Spot::HeapJsonWide
        | Spot::HeapBare
        | Spot::HeapBareWide
        | Spot::HeapSettings
        | Spot::HeapQuery
        | Spot::HeapYamlWide
        | Spot::HeapBareBehindLength
        | Spot::EnvironmentOfChild
        | Spot::HeapHeader
        | Spot::HeapVariables
        | Spot::HeapDictionary
        | Spot::HeapBareOfDotNet
        | Spot::HeapUnit
        | Spot::HeapXmlWide
        | Spot::HeapSemicolons
        | Spot::HeapGoMap
        | Spot::HeapRubyHash
        | Spot::HeapBareOfJava
        | Spot::HeapTwoStrings
        | Spot::HeapNameAndValueWide
        | Spot::HeapYamlList
        | Spot::HeapMultipart
        | Spot::HeapPhpSerialized
        | Spot::HeapCommandLineWide
        | Spot::HeapBareInProtobuf
        | Spot::HeapForm
        | Spot::HeapConnectionWide
        | Spot::HeapObject
        | Spot::HeapEntry
        | Spot::HeapCookie
        | Spot::HeapBareInLine
        | Spot::HeapYamlSection
        | Spot::HeapJsonSection
        | Spot::HeapSqlSetting
        | Spot::HeapEnvironmentFileWide
        | Spot::HeapBson
        | Spot::HeapBareInArray
        | Spot::HeapJsonInJson
        | Spot::HeapLogfmt
        | Spot::HeapPropertiesWide
        | Spot::HeapShellLine
        | Spot::HeapFastCgi
        | Spot::HeapBareInMessage => {}
    }
    let block = |value: &Value, random: &mut Random| -> Vec<u8> {
        let text = &value.text;
        let planted = match spot {
            Spot::Environment => format!("HOME=/srv/shop\0{}={text}\0SHLVL=1\0", upper(key)).into_bytes(),
            Spot::Arguments => format!("/usr/bin/shop\0--port\08080\0--{}={text}\0", kebab(key)).into_bytes(),
            Spot::HeapPair => format!("{{\"user\":\"app\",\"{key}\":\"{text}\"}}").into_bytes(),
            Spot::HeapJsonWide => wide(&format!("{{\"user\":\"app\",\"{key}\":\"{text}\"}}"), false),
            Spot::HeapBare | Spot::CopyOfVariable | Spot::CopyOfArgument | Spot::CopyOfArgumentApart => {
                text.clone().into_bytes()
            }
            Spot::HeapBareWide | Spot::CopyOfVariableWide | Spot::CopyOfArgumentWide => wide(text, false),
            Spot::EnvironmentWide => {
                wide(&format!("HOME=/srv/shop\0{}={text}\0SHLVL=1\0", upper(key)), false)
            }
            Spot::ArgumentsApart => {
                format!("/usr/bin/shop\0--port\08080\0--{}\0{text}\0", kebab(key)).into_bytes()
            }
            Spot::HeapSettings => format!("user=app\n{key}={text}\nport=80\n").into_bytes(),
            Spot::HeapQuery => format!("/v1/items?page=2&{key}={text}&lang=en").into_bytes(),
            Spot::HeapYamlWide => wide(&format!("user: app\n{key}: \"{text}\"\nport: 80\n"), false),
            Spot::HeapBareBehindLength | Spot::CopyOfVariableBehindLength => {
                [&(text.len() as u32).to_le_bytes()[..], text.as_bytes(), b"\0"].concat()
            }
            Spot::CopyBetweenQuotes => format!("bad argument '{text}' in call").into_bytes(),
            Spot::CopyInText => format!("retry with {text} in 5 s").into_bytes(),
            Spot::EnvironmentOfChild => format!("TERM=dumb\0{}={text}\0PWD=/\0", upper(key)).into_bytes(),
            Spot::ArgumentsOneDash => {
                format!("/usr/bin/shop\0--port\08080\0-{}\0{text}\0", kebab(key)).into_bytes()
            }
            Spot::HeapHeader => {
                let name = key.replace(['_', '.', ':', '/'], "-");
                format!("GET /v1 HTTP/1.1\r\nHost: db1\r\n{name}: {text}\r\nAccept: */*\r\n\r\n").into_bytes()
            }
            Spot::HeapVariables => {
                format!("[\"PATH=/usr/bin\",\"{}={text}\",\"LANG=C\"]", upper(key)).into_bytes()
            }
            Spot::HeapDictionary => format!("{{'user': 'app', '{key}': '{text}', 'port': 80}}").into_bytes(),
            Spot::HeapBareOfDotNet | Spot::CopyOfArgumentOfDotNet => string_of_dot_net(text),
            Spot::HeapTwoStrings => format!("host\0db1\0{key}\0{text}\0port\080\0").into_bytes(),
            Spot::HeapNameAndValueWide => [string_of_dot_net(key), string_of_dot_net(text)].concat(),
            Spot::HeapYamlList => {
                format!("- name: LANG\n  value: C\n- name: {}\n  value: {text}\n- name: PORT\n", upper(key))
                    .into_bytes()
            }
            Spot::HeapMultipart => {
                let head = "Content-Disposition: form-data; name=";
                format!("--b1\r\n{head}\"{key}\"\r\n\r\n{text}\r\n--b1--\r\n").into_bytes()
            }
            Spot::HeapPhpSerialized => {
                let lengths = (key.len(), text.len());
                let pair = format!("s:{}:\"{key}\";s:{}:\"{text}\";", lengths.0, lengths.1);
                format!("a:2:{{s:4:\"host\";s:3:\"db1\";{pair}}}").into_bytes()
            }
            Spot::HeapCommandLineWide => {
                wide(&format!("\"C:\\Shop\\shop.exe\" --port 80 --{} \"{text}\" --quiet", kebab(key)), false)
            }
            Spot::HeapBareInProtobuf => protobuf(text),
            Spot::CopyInSaslPlain => format!("AUTH PLAIN {}\r\n", sasl_plain(text)).into_bytes(),
            Spot::CopyInPercentAddress => format!("amqp://app:{}@db1:5672/shop", percent(text)).into_bytes(),
            Spot::CopyInAddress => format!("db1:5432 app:{text}@shop").into_bytes(),
            Spot::CopyInJsonWide => wide(&format!("{{\"n\":1,\"v\":\"{text}\"}}"), false),
            Spot::HeapUnit => {
                format!("[Service]\nEnvironment=LANG=C\nEnvironment={}={text}\nUser=app\n", upper(key))
                    .into_bytes()
            }
            Spot::HeapXmlWide => wide(
                &format!("<add key=\"port\" value=\"80\" />\r\n<add key=\"{key}\" value=\"{text}\" />"),
                false,
            ),
            Spot::HeapSemicolons => format!("Server=db1;User Id=app;{key}={text};Timeout=30").into_bytes(),
            Spot::HeapGoMap => format!("map[host:db1 {key}:{text} port:80]").into_bytes(),
            Spot::HeapRubyHash => format!("{{\"user\"=>\"app\", \"{key}\"=>\"{text}\"}}").into_bytes(),
            // Mark word, class, length, letters.
            Spot::HeapBareOfJava | Spot::CopyOfVariableOfJava => [
                &1_u64.to_le_bytes()[..],
                &0x0000_2140_u32.to_le_bytes(),
                &(text.len() as u32).to_le_bytes(),
                text.as_bytes(),
            ]
            .concat(),
            Spot::CopyInRedisCommand => {
                format!("*2\r\n$4\r\nAUTH\r\n${}\r\n{text}\r\n", text.len()).into_bytes()
            }
            Spot::CopyInSql => format!("SELECT id FROM notes WHERE body = '{text}' LIMIT 1").into_bytes(),
            Spot::CopyInLogWide => wide(&format!("[WRN] retry 3 with {text} failed"), false),
            Spot::CopyInBasic => format!("Basic {}", basic(text)).into_bytes(),
            Spot::HeapForm => {
                let pair = format!("{key}={}", percent(text));
                format!("POST /login HTTP/1.1\r\nHost: shop\r\n\r\nuser=app&{pair}&go=1").into_bytes()
            }
            Spot::HeapConnectionWide => {
                wide(&format!("Data Source=db1;User ID=app;{key}={text};Pooling=true"), false)
            }
            Spot::HeapObject => format!("Settings(host='db1', {key}='{text}', port=80)").into_bytes(),
            Spot::HeapEntry => format!("{{\"name\":\"{key}\",\"value\":\"{text}\"}}").into_bytes(),
            Spot::HeapCookie => {
                let name = key.replace(['.', ':', '/'], "_");
                format!("GET / HTTP/1.1\r\nCookie: lang=en; {name}={}; theme=dark\r\n\r\n", percent(text))
                    .into_bytes()
            }
            Spot::HeapBareInLine => format!("2026-11-03 10:11:12 INFO using {text} for shop\n").into_bytes(),
            Spot::CopyInBearer => format!("authorization: Bearer {text}\r\n").into_bytes(),
            Spot::CopyInWebSocket => format!("42[\"join\",{{\"room\":7,\"with\":\"{text}\"}}]").into_bytes(),
            Spot::CopyInUrlWide => wide(&format!("http://shop:{text}@proxy:3128/"), false),
            Spot::CopyInCommand => format!("sh -c 'app --port 80 \"{text}\" >/dev/null'").into_bytes(),
            Spot::HeapYamlSection => {
                format!("shop:\n  port: 80\n  {key}: {text}\n  host: db1\n").into_bytes()
            }
            Spot::HeapJsonSection => {
                format!("{{\"Shop\":{{\"Port\":80,\"{key}\":\"{text}\"}}}}").into_bytes()
            }
            Spot::HeapSqlSetting => {
                format!("INSERT INTO settings (name, value) VALUES ('{key}', '{text}');").into_bytes()
            }
            Spot::HeapEnvironmentFileWide => {
                wide(&format!("TZ=UTC\r\n{}={text}\r\nPORT=80\r\n", upper(key)), false)
            }
            Spot::HeapBson => bson(key, text),
            Spot::HeapBareInArray => format!("[\"GET\",\"{text}\",\"OK\"]").into_bytes(),
            // Type, length of all behind the type, text, end.
            Spot::CopyInPasswordMessage => {
                [b"p", &(text.len() as u32 + 5).to_be_bytes()[..], text.as_bytes(), b"\0"].concat()
            }
            Spot::CopyInLoginOfMail => {
                format!("334 UGFzc3dvcmQ6\r\n{}\r\n235 2.7.0 ok\r\n", alone(text)).into_bytes()
            }
            Spot::CopyInErrorWide => {
                wide(&format!("System.ArgumentException: '{text}' is not a valid name"), false)
            }
            // A map of one member, whose text has its length in two bytes.
            Spot::CopyOfArgumentInMessagePack => {
                [b"\x81\xa1v\xda", &(text.len() as u16).to_be_bytes()[..], text.as_bytes(), b"\xc0"].concat()
            }
            Spot::HeapJsonInJson => {
                let inner = format!("{{\"user\":\"app\",\"{key}\":\"{}\"}}", json(text));
                format!("{{\"level\":20,\"body\":\"{}\"}}", json(&inner)).into_bytes()
            }
            Spot::HeapLogfmt => format!("level=debug host=db1 {key}={text} port=80\n").into_bytes(),
            Spot::HeapPropertiesWide => {
                wide(&format!("shop.host=db1\r\n{key}={text}\r\nshop.port=80\r\n"), false)
            }
            Spot::HeapShellLine => {
                format!("cd /srv/shop; export {}='{text}'; ./run\n", upper(key)).into_bytes()
            }
            Spot::HeapFastCgi => fast_cgi(&upper(key), text),
            Spot::HeapBareInMessage => {
                format!("{{\"level\":30,\"msg\":\"using {text} for shop\"}}").into_bytes()
            }
            Spot::CopyInCookie => {
                format!("GET / HTTP/1.1\r\nCookie: lang=en; sid={text}\r\n\r\n").into_bytes()
            }
            Spot::CopyInListWide => wide(&format!("[app, {text}, 80]"), false),
            // Count of references, type, length, hash, state, letters.
            Spot::CopyOfVariableOfPython => [
                &3_u64.to_le_bytes()[..],
                &0x0095_5e20_u64.to_le_bytes(),
                &(text.len() as u64).to_le_bytes(),
                &u64::MAX.to_le_bytes(),
                &0xe4_u64.to_le_bytes(),
                text.as_bytes(),
                b"\0",
            ]
            .concat(),
            Spot::CopyOfArgumentInJsonRpc => {
                format!("{{\"jsonrpc\":\"2.0\",\"method\":\"run\",\"params\":[\"{text}\",7],\"id\":1}}")
                    .into_bytes()
            }
        };
        [around(random), planted, vec![0, 0, 0, 0], around(random)].concat()
    };
    let bytes = block(&value, &mut random.clone());
    let without = Value { text: value.text.replace(&value.secret, "?"), secret: String::new() };
    let background = block(&without, random);
    let encoding = match spot {
        Spot::HeapJsonWide
        | Spot::HeapBareWide
        | Spot::CopyOfVariableWide
        | Spot::EnvironmentWide
        | Spot::HeapYamlWide
        | Spot::CopyOfArgumentWide
        | Spot::HeapBareOfDotNet
        | Spot::CopyInJsonWide
        | Spot::HeapXmlWide
        | Spot::CopyInLogWide
        | Spot::HeapNameAndValueWide
        | Spot::HeapCommandLineWide
        | Spot::CopyOfArgumentOfDotNet
        | Spot::HeapConnectionWide
        | Spot::CopyInUrlWide
        | Spot::HeapEnvironmentFileWide
        | Spot::CopyInErrorWide
        | Spot::HeapPropertiesWide
        | Spot::CopyInListWide => Encoding::Utf16Le,
        Spot::HeapJsonInJson => Encoding::JsonStringTwice,
        Spot::CopyInBasic | Spot::CopyInSaslPlain | Spot::CopyInLoginOfMail => Encoding::Base64,
        Spot::CopyInPercentAddress | Spot::HeapForm | Spot::HeapCookie => Encoding::PercentSpecials,
        Spot::Environment
        | Spot::ArgumentsApart
        | Spot::HeapSettings
        | Spot::HeapQuery
        | Spot::HeapBareBehindLength
        | Spot::CopyOfArgumentApart
        | Spot::CopyBetweenQuotes
        | Spot::Arguments
        | Spot::HeapPair
        | Spot::HeapBare
        | Spot::CopyOfVariable
        | Spot::CopyOfArgument
        | Spot::CopyInText
        | Spot::EnvironmentOfChild
        | Spot::ArgumentsOneDash
        | Spot::HeapHeader
        | Spot::HeapVariables
        | Spot::HeapDictionary
        | Spot::CopyInAddress
        | Spot::CopyOfVariableBehindLength
        | Spot::HeapUnit
        | Spot::HeapSemicolons
        | Spot::HeapGoMap
        | Spot::HeapRubyHash
        | Spot::HeapBareOfJava
        | Spot::CopyInRedisCommand
        | Spot::CopyInSql
        | Spot::CopyOfVariableOfJava
        | Spot::HeapTwoStrings
        | Spot::HeapYamlList
        | Spot::HeapMultipart
        | Spot::HeapPhpSerialized
        | Spot::HeapBareInProtobuf
        | Spot::HeapObject
        | Spot::HeapEntry
        | Spot::HeapBareInLine
        | Spot::CopyInBearer
        | Spot::CopyInWebSocket
        | Spot::CopyInCommand
        | Spot::HeapYamlSection
        | Spot::HeapJsonSection
        | Spot::HeapSqlSetting
        | Spot::HeapBson
        | Spot::HeapBareInArray
        | Spot::CopyInPasswordMessage
        | Spot::CopyOfArgumentInMessagePack
        | Spot::HeapLogfmt
        | Spot::HeapShellLine
        | Spot::HeapFastCgi
        | Spot::HeapBareInMessage
        | Spot::CopyInCookie
        | Spot::CopyOfVariableOfPython
        | Spot::CopyOfArgumentInJsonRpc => Encoding::Plain,
    };
    let is_copy = matches!(
        spot,
        Spot::CopyOfVariable
            | Spot::CopyOfVariableWide
            | Spot::CopyOfArgument
            | Spot::CopyInText
            | Spot::CopyOfArgumentWide
            | Spot::CopyOfArgumentApart
            | Spot::CopyBetweenQuotes
            | Spot::CopyInAddress
            | Spot::CopyInJsonWide
            | Spot::CopyInBasic
            | Spot::CopyOfVariableBehindLength
            | Spot::CopyInRedisCommand
            | Spot::CopyInSql
            | Spot::CopyInLogWide
            | Spot::CopyOfVariableOfJava
            | Spot::CopyInSaslPlain
            | Spot::CopyInPercentAddress
            | Spot::CopyOfArgumentOfDotNet
            | Spot::CopyInBearer
            | Spot::CopyInWebSocket
            | Spot::CopyInUrlWide
            | Spot::CopyInCommand
            | Spot::CopyInPasswordMessage
            | Spot::CopyInLoginOfMail
            | Spot::CopyInErrorWide
            | Spot::CopyOfArgumentInMessagePack
            | Spot::CopyInCookie
            | Spot::CopyInListWide
            | Spot::CopyOfVariableOfPython
            | Spot::CopyOfArgumentInJsonRpc
    );
    let written = match spot {
        Spot::CopyInBasic => basic(&value.text).into_bytes(),
        Spot::CopyInSaslPlain => sasl_plain(&value.text).into_bytes(),
        _ => encoding.encode(&value.text),
    };
    Case {
        kind: kind.name.clone(),
        place: place.to_owned(),
        half: kind.half.both(half_of_place(kind.half, place)),
        class: if is_copy { Class::MemoryRepeated } else { Class::Memory },
        may_change: found(&bytes, &written),
        bundle: vec![Input::Memory { environment, arguments, bytes }],
        scored: 0,
        background,
        needle: Needle::new(&value.secret, &value.secret, encoding),
        source: None,
        format: None,
    }
}

/// A user and a password as a header carries them.
fn basic(password: &str) -> String {
    base64(format!("app:{password}").as_bytes(), STANDARD, true)
}

/// The same as SASL's PLAIN carries them.
fn sasl_plain(password: &str) -> String {
    base64(format!("\0app\0{password}").as_bytes(), STANDARD, true)
}

/// A password alone, as the second answer of SMTP's LOGIN.
fn alone(password: &str) -> String {
    base64(password.as_bytes(), STANDARD, true)
}

/// A member of a document of BSON: type, name, length with the end, letters.
fn bson(name: &str, text: &str) -> Vec<u8> {
    let length = (text.len() as u32 + 1).to_le_bytes();
    [b"\x02", name.as_bytes(), b"\0", &length, text.as_bytes(), b"\0"].concat()
}

/// A parameter of FastCGI: lengths of name and value, in one byte or in four, then both.
fn fast_cgi(name: &str, text: &str) -> Vec<u8> {
    let length = |part: &str| match part.len() {
        short @ ..0x80 => vec![short as u8],
        long => (long as u32 | 0x8000_0000).to_be_bytes().to_vec(),
    };
    [&length(name)[..], &length(text), name.as_bytes(), text.as_bytes()].concat()
}

/// A string of .NET: its length, its letters, and an end.
fn string_of_dot_net(text: &str) -> Vec<u8> {
    let letters = text.encode_utf16().count() as u32;
    [&letters.to_le_bytes()[..], &wide(text, false), &[0, 0]].concat()
}

/// A message of protobuf: a text in field 1, a number behind it.
fn protobuf(text: &str) -> Vec<u8> {
    let mut message = vec![0x0a];
    let mut length = text.len();
    while length > 0x7f {
        message.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    message.push(length as u8);
    message.extend(text.as_bytes());
    message.extend([0x10, 0x2a]);
    message
}

/// Memory as it is around texts: pointers, numbers, texts that say nothing.
fn around(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..24 {
        match random.below(4) {
            0 => bytes.extend([0; 16]),
            1 => bytes.extend((0x7f00_0000_0000_u64 + random.below(1 << 30) as u64 * 8).to_le_bytes()),
            2 => bytes
                .extend(random.pick(&["GET /items\0", "utf-8\0", "Shop.Orders\0", "text/html\0"]).as_bytes()),
            _ => bytes.extend((0..24).map(|_| random.below(256) as u8)),
        }
    }
    bytes
}

fn found(bytes: &[u8], part: &[u8]) -> Vec<Range<usize>> {
    let starts = (0..bytes.len()).filter(|start| !part.is_empty() && bytes[*start..].starts_with(part));
    starts.map(|start| start..start + part.len()).collect()
}
