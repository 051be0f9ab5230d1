//! The spots of each half.

use super::super::encode::{Encoding, json, percent};
use super::super::half::Half;
use super::super::places::{kebab, upper};
use super::layout::{basic, behind_length, bind_of_ldap, bson, bytes_of_java, fast_cgi, field_of_redis};
use super::layout::{headers_of_http2, map_of_protobuf, row_of_mysql, string_of_cpp, string_of_php};
use super::layout::{password_message, protobuf, sasl_plain, short_text_of_message_pack};
use super::layout::{string_of_dot_net, string_of_python, string_of_v8};
use super::spot::{Spot, Taught};

/// Those of a half.
pub(super) fn of(half: Half) -> &'static [Spot] {
    match half {
        Half::A | Half::B | Half::Mixed => FIRST,
        Half::C => C,
        Half::D => D,
        Half::E | Half::RestOfE => E,
        Half::F => F,
        Half::G => G,
        Half::H => H,
        Half::I => I,
        Half::J => J,
        Half::K => K,
    }
}

/// The value and nothing else.
fn only(_: &str, value: &str) -> String {
    value.to_owned()
}

const FIRST: &[Spot] = &[
    Spot::text("environment block", |name, value| {
        format!("HOME=/srv/shop\0{}={value}\0SHLVL=1\0", upper(name))
    })
    .is_of(Taught::Variable),
    Spot::text("argument block", |name, value| {
        format!("/usr/bin/shop\0--port\08080\0--{}={value}\0", kebab(name))
    })
    .is_of(Taught::Argument),
    Spot::text("heap, name and value", |name, value| format!("{{\"user\":\"app\",\"{name}\":\"{value}\"}}")),
    Spot::text("heap, JSON as UTF-16", |name, value| format!("{{\"user\":\"app\",\"{name}\":\"{value}\"}}"))
        .wide(),
    Spot::text("heap, alone", only).alone(),
    Spot::text("heap, alone as UTF-16", only).wide().alone(),
    Spot::text("copy of a variable", only).copy_of(Taught::Variable),
    Spot::text("copy of a variable as UTF-16", only).wide().copy_of(Taught::Variable),
    Spot::text("copy of an argument", only).copy_of(Taught::Argument),
    Spot::text("copy in a text", |_, value| format!("retry with {value} in 5 s")).copy_of(Taught::Variable),
];

const C: &[Spot] = &[
    Spot::text("environment block as UTF-16", |name, value| {
        format!("HOME=/srv/shop\0{}={value}\0SHLVL=1\0", upper(name))
    })
    .wide()
    .is_of(Taught::Variable),
    Spot::text("argument block, name and value apart", |name, value| {
        format!("/usr/bin/shop\0--port\08080\0--{}\0{value}\0", kebab(name))
    })
    .is_of(Taught::ArgumentApart),
    Spot::text("heap, settings", |name, value| format!("user=app\n{name}={value}\nport=80\n")),
    Spot::text("heap, query string", |name, value| format!("/v1/items?page=2&{name}={value}&lang=en")),
    Spot::text("heap, YAML as UTF-16", |name, value| format!("user: app\n{name}: \"{value}\"\nport: 80\n"))
        .wide(),
    Spot::bytes("heap, alone behind its length", behind_length).alone(),
    Spot::text("copy of an argument as UTF-16", only).wide().copy_of(Taught::Argument),
    Spot::text("copy of an argument behind its name", only).copy_of(Taught::ArgumentApart),
    Spot::text("copy between quotes", |_, value| format!("bad argument '{value}' in call"))
        .copy_of(Taught::Variable),
];

const D: &[Spot] = &[
    Spot::text("environment of a child", |name, value| {
        format!("TERM=dumb\0{}={value}\0PWD=/\0", upper(name))
    }),
    Spot::text("argument block, one dash", |name, value| {
        format!("/usr/bin/shop\0--port\08080\0-{}\0{value}\0", kebab(name))
    })
    .is_of(Taught::ArgumentOneDash),
    Spot::text("heap, header of a request", |name, value| {
        let name = name.replace(['_', '.', ':', '/'], "-");
        format!("GET /v1 HTTP/1.1\r\nHost: db1\r\n{name}: {value}\r\nAccept: */*\r\n\r\n")
    }),
    Spot::text("heap, list of variables", |name, value| {
        format!("[\"PATH=/usr/bin\",\"{}={value}\",\"LANG=C\"]", upper(name))
    }),
    Spot::text("heap, dictionary of Python", |name, value| {
        format!("{{'user': 'app', '{name}': '{value}', 'port': 80}}")
    }),
    Spot::bytes("heap, alone as a string of .NET", |_, value| string_of_dot_net(value)).wide().alone(),
    Spot::text("copy in an address", |_, value| format!("db1:5432 app:{value}@shop"))
        .copy_of(Taught::Variable),
    Spot::text("copy in JSON as UTF-16", |_, value| format!("{{\"n\":1,\"v\":\"{value}\"}}"))
        .wide()
        .copy_of(Taught::Variable),
    Spot::text("copy in a basic authorization", |_, value| format!("Basic {}", basic(value)))
        .within(basic)
        .copy_of(Taught::Variable),
    Spot::bytes("copy of a variable behind its length", behind_length).copy_of(Taught::Variable),
];

const E: &[Spot] = &[
    Spot::text("heap, lines of a unit", |name, value| {
        format!("[Service]\nEnvironment=LANG=C\nEnvironment={}={value}\nUser=app\n", upper(name))
    }),
    Spot::text("heap, XML as UTF-16", |name, value| {
        format!("<add key=\"port\" value=\"80\" />\r\n<add key=\"{name}\" value=\"{value}\" />")
    })
    .wide(),
    Spot::text("heap, settings between semicolons", |name, value| {
        format!("Server=db1;User Id=app;{name}={value};Timeout=30")
    }),
    Spot::text("heap, map of Go", |name, value| format!("map[host:db1 {name}:{value} port:80]")),
    Spot::text("heap, hash of Ruby", |name, value| format!("{{\"user\"=>\"app\", \"{name}\"=>\"{value}\"}}")),
    Spot::bytes("heap, alone as bytes of Java", bytes_of_java).alone(),
    Spot::text("copy in a command of Redis", |_, value| {
        format!("*2\r\n$4\r\nAUTH\r\n${}\r\n{value}\r\n", value.len())
    })
    .copy_of(Taught::Variable),
    Spot::text("copy of an argument in SQL", |_, value| {
        format!("SELECT id FROM notes WHERE body = '{value}' LIMIT 1")
    })
    .copy_of(Taught::Argument),
    Spot::text("copy in a line of a log as UTF-16", |_, value| format!("[WRN] retry 3 with {value} failed"))
        .wide()
        .copy_of(Taught::Variable),
    Spot::bytes("copy of a variable as bytes of Java", bytes_of_java).copy_of(Taught::Variable),
];

const F: &[Spot] = &[
    Spot::text("heap, name and value as two strings", |name, value| {
        format!("host\0db1\0{name}\0{value}\0port\080\0")
    }),
    Spot::bytes("heap, name and value as strings of .NET", |name, value| {
        [string_of_dot_net(name), string_of_dot_net(value)].concat()
    })
    .wide(),
    Spot::text("heap, list of names and values", |name, value| {
        format!("- name: LANG\n  value: C\n- name: {}\n  value: {value}\n- name: PORT\n", upper(name))
    }),
    Spot::text("heap, part of a form", |name, value| {
        let head = "Content-Disposition: form-data; name=";
        format!("--b1\r\n{head}\"{name}\"\r\n\r\n{value}\r\n--b1--\r\n")
    }),
    Spot::text("heap, array as PHP writes it", |name, value| {
        let pair = format!("s:{}:\"{name}\";s:{}:\"{value}\";", name.len(), value.len());
        format!("a:2:{{s:4:\"host\";s:3:\"db1\";{pair}}}")
    }),
    Spot::text("heap, command line as UTF-16", |name, value| {
        format!("\"C:\\Shop\\shop.exe\" --port 80 --{} \"{value}\" --quiet", kebab(name))
    })
    .wide(),
    Spot::bytes("heap, alone as a field of protobuf", protobuf).alone(),
    Spot::text("copy in SASL's PLAIN", |_, value| format!("AUTH PLAIN {}\r\n", sasl_plain(value)))
        .within(sasl_plain)
        .copy_of(Taught::Variable),
    Spot::text("copy in an address, in percent", |_, value| {
        format!("amqp://app:{}@db1:5672/shop", percent(value))
    })
    .encoded(Encoding::PercentSpecials)
    .copy_of(Taught::Variable),
    Spot::bytes("copy of an argument as a string of .NET", |_, value| string_of_dot_net(value))
        .wide()
        .copy_of(Taught::Argument),
];

const G: &[Spot] = &[
    Spot::text("heap, body of a form", |name, value| {
        let pair = format!("{name}={}", percent(value));
        format!("POST /login HTTP/1.1\r\nHost: shop\r\n\r\nuser=app&{pair}&go=1")
    })
    .encoded(Encoding::PercentSpecials),
    Spot::text("heap, connection string as UTF-16", |name, value| {
        format!("Data Source=db1;User ID=app;{name}={value};Pooling=true")
    })
    .wide(),
    Spot::text("heap, object as a program prints it", |name, value| {
        format!("Settings(host='db1', {name}='{value}', port=80)")
    }),
    Spot::text("heap, entry with key and value", |name, value| {
        format!("{{\"name\":\"{name}\",\"value\":\"{value}\"}}")
    }),
    Spot::text("heap, cookie of a request", |name, value| {
        let pair = format!("{}={}", name.replace(['.', ':', '/'], "_"), percent(value));
        format!("GET / HTTP/1.1\r\nCookie: lang=en; {pair}; theme=dark\r\n\r\n")
    })
    .encoded(Encoding::PercentSpecials),
    Spot::text("heap, alone in a line of a log", |_, value| {
        format!("2026-11-03 10:11:12 INFO using {value} for shop\n")
    })
    .alone(),
    Spot::text("copy in a bearer authorization", |_, value| format!("authorization: Bearer {value}\r\n"))
        .copy_of(Taught::Variable),
    Spot::text("copy in a message of a socket", |_, value| {
        format!("42[\"join\",{{\"room\":7,\"with\":\"{value}\"}}]")
    })
    .copy_of(Taught::Variable),
    Spot::text("copy in an address as UTF-16", |_, value| format!("http://shop:{value}@proxy:3128/"))
        .wide()
        .copy_of(Taught::Argument),
    Spot::text("copy of an argument in a command", |_, value| {
        format!("sh -c 'app --port 80 \"{value}\" >/dev/null'")
    })
    .copy_of(Taught::Argument),
];

const H: &[Spot] = &[
    Spot::text("heap, section of YAML", |name, value| {
        format!("shop:\n  port: 80\n  {name}: {value}\n  host: db1\n")
    }),
    Spot::text("heap, section of JSON", |name, value| {
        format!("{{\"Shop\":{{\"Port\":80,\"{name}\":\"{value}\"}}}}")
    }),
    Spot::text("heap, setting of SQL", |name, value| {
        format!("INSERT INTO settings (name, value) VALUES ('{name}', '{value}');")
    }),
    Spot::text("heap, file of variables as UTF-16", |name, value| {
        format!("TZ=UTC\r\n{}={value}\r\nPORT=80\r\n", upper(name))
    })
    .wide(),
    Spot::bytes("heap, element of BSON", bson),
    Spot::text("heap, alone in an array", |_, value| format!("[\"GET\",\"{value}\",\"OK\"]")).alone(),
    Spot::bytes("copy in a message of PostgreSQL", password_message).copy_of(Taught::Variable),
    Spot::text("copy in SMTP's LOGIN", |_, value| {
        let answer = Encoding::Base64.encode(value);
        format!("334 UGFzc3dvcmQ6\r\n{}\r\n235 2.7.0 ok\r\n", String::from_utf8_lossy(&answer))
    })
    .encoded(Encoding::Base64)
    .copy_of(Taught::Variable),
    Spot::text("copy in an error as UTF-16", |_, value| {
        format!("System.ArgumentException: '{value}' is not a valid name")
    })
    .wide()
    .copy_of(Taught::Variable),
    Spot::bytes("copy of an argument in MessagePack", short_text_of_message_pack).copy_of(Taught::Argument),
];

const I: &[Spot] = &[
    Spot::text("heap, JSON in JSON", |name, value| {
        let inner = format!("{{\"user\":\"app\",\"{name}\":\"{}\"}}", json(value));
        format!("{{\"level\":20,\"body\":\"{}\"}}", json(&inner))
    })
    .encoded(Encoding::JsonStringTwice),
    Spot::text("heap, words of a log", |name, value| {
        format!("level=debug host=db1 {name}={value} port=80\n")
    }),
    Spot::text("heap, properties as UTF-16", |name, value| {
        format!("shop.host=db1\r\n{name}={value}\r\nshop.port=80\r\n")
    })
    .wide(),
    Spot::text("heap, line of a shell", |name, value| {
        format!("cd /srv/shop; export {}='{value}'; ./run\n", upper(name))
    }),
    Spot::bytes("heap, parameter of FastCGI", |name, value| fast_cgi(&upper(name), value)),
    Spot::text("heap, alone in a message of JSON", |_, value| {
        format!("{{\"level\":30,\"msg\":\"using {value} for shop\"}}")
    })
    .alone(),
    Spot::text("copy in a cookie", |_, value| {
        format!("GET / HTTP/1.1\r\nCookie: lang=en; sid={value}\r\n\r\n")
    })
    .copy_of(Taught::Variable),
    Spot::text("copy in a list as UTF-16", |_, value| format!("[app, {value}, 80]"))
        .wide()
        .copy_of(Taught::Variable),
    Spot::bytes("copy of a variable as a string of Python", string_of_python).copy_of(Taught::Variable),
    Spot::text("copy of an argument in a call of JSON", |_, value| {
        format!("{{\"jsonrpc\":\"2.0\",\"method\":\"run\",\"params\":[\"{value}\",7],\"id\":1}}")
    })
    .copy_of(Taught::Argument),
];

const J: &[Spot] = &[
    Spot::text("heap, section of INI", |name, value| {
        format!("; shop\n[shop]\nport = 80\n{name} = {value}\nworkers = 4\n")
    }),
    Spot::text("heap, table of TOML", |name, value| {
        format!("[shop]\nport = 80\n\"{name}\" = \"{}\"\nworkers = 4\n", json(value))
    })
    .encoded(Encoding::JsonString),
    Spot::text("heap, map of Java", |name, value| {
        format!("{{shop.port=80, {name}={value}, shop.workers=4}}")
    }),
    Spot::bytes("heap, field of a hash of Redis", field_of_redis),
    Spot::text("heap, list of properties as UTF-16", |name, value| {
        format!("Host    : db1\r\n{name} : {value}\r\nPort    : 80\r\n")
    })
    .wide(),
    Spot::bytes("heap, alone as a string of V8", string_of_v8).alone(),
    Spot::bytes("copy in a bind of LDAP", bind_of_ldap).copy_of(Taught::Variable),
    Spot::text("copy in the arguments of a child", |_, value| {
        format!("mysqldump\0--host\0db1\0-p{value}\0--single-transaction\0shop\0")
    })
    .copy_of(Taught::Variable),
    Spot::text("copy in a record with tabs as UTF-16", |_, value| format!("41\tapp\t{value}\topen\r\n"))
        .wide()
        .copy_of(Taught::ArgumentApart),
    Spot::text("copy of an argument in a query", |_, value| {
        format!("GET /search?q={}&page=1 HTTP/1.1\r\nHost: shop\r\n\r\n", percent(value))
    })
    .encoded(Encoding::PercentSpecials)
    .copy_of(Taught::Argument),
];

const K: &[Spot] = &[
    Spot::text("top of the stack, arguments and environment", |name, value| {
        let variables = format!("LANG=C.UTF-8\0{}={value}\0HOME=/srv/shop\0", upper(name));
        format!("x86_64\0/usr/bin/shop\0--port\08080\0{variables}/usr/bin/shop\0")
    })
    .is_of(Taught::Variable),
    Spot::text("heap, lines of a history", |name, value| {
        format!("cd /srv/shop\0export {}='{value}'\0./shop --port 8080\0", upper(name))
    }),
    Spot::bytes("heap, header block of HTTP/2", |name, value| headers_of_http2(&kebab(name), value)),
    Spot::bytes("heap, members of a map of protobuf", map_of_protobuf),
    Spot::bytes("heap, name and value as strings of PHP", |name, value| {
        [string_of_php(name), string_of_php(value)].concat()
    }),
    Spot::text("heap, values of a registry as UTF-16", |name, value| {
        format!("[HKEY_LOCAL_MACHINE\\SOFTWARE\\Shop]\r\n\"Host\"=\"db1\"\r\n\"{name}\"=\"{value}\"\r\n")
    })
    .wide(),
    Spot::bytes("heap, alone as a string of C++", string_of_cpp).alone(),
    Spot::bytes("copy in a row of MySQL", row_of_mysql).copy_of(Taught::Variable),
    Spot::text("copy in JSON", |_, value| {
        format!("{{\"event\":\"retry\",\"words\":[\"run\",\"{}\"],\"n\":41}}", json(value))
    })
    .encoded(Encoding::JsonString)
    .copy_of(Taught::Argument),
    Spot::text("copy in a command line as UTF-16", |_, value| {
        format!("C:\\Windows\\System32\\cmd.exe /d /c run.cmd \"{value}\"")
    })
    .wide()
    .copy_of(Taught::ArgumentApart),
];
