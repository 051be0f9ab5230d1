//! What stands in a cell or an element: settings, commands, headers, statements, addresses, alone and beside others.

use proptest::prelude::*;

/// Values of many alphabets.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[A-Za-z0-9]{8,24}",
        2 => "[A-Za-z0-9!#$%^*_+=.~/@-]{6,20}",
        1 => "[A-Za-z0-9+/]{24}==",
        1 => "[!-~]{6,16}",
        1 => "[a-z]{4,8} [a-z]{4,8} [a-z]{4,8} [a-z]{4,8}",
        1 => "ghp_[A-Za-z0-9]{36}",
        1 => "[0-9]{4,8}",
        1 => "[A-Za-z]{5,8}[äöü密п]{1,3}[0-9]{2}",
    ]
}

/// Names of secrets and of other things.
pub(crate) fn name() -> impl Strategy<Value = String> {
    let names = [
        "password",
        "api_key",
        "DbPassword",
        "token",
        "client-secret",
        "pin",
        "Authorization",
        "cookie",
        "ConnectionString",
        "user",
        "note",
        "count",
        "message",
        "secret",
        "passphrase",
        "session_id",
        "credentials",
        "private_key",
        "url",
        "Passwort",
        "id",
        "value",
        "name",
        "Access Key",
        "User Name",
    ];
    prop::sample::select(names.map(str::to_owned).to_vec())
}

/// One of them.
pub(crate) fn content() -> impl Strategy<Value = String> {
    (name(), value(), name(), value(), 0..30_u8).prop_map(|(n, v, m, w, kind)| match kind {
        0 => v,
        1 => format!("{n}={v}"),
        2 => format!("{n}: {v}"),
        3 => format!("failed with {n}={v} after 3 tries"),
        4 => format!("{n} is {v}"),
        5 => format!("postgres://app:{v}@db1:5432/shop"),
        6 => format!("Server=db1;User Id=app;{n}={v};Encrypt=true"),
        7 => format!("Server=db1;{n}='{v}'"),
        8 => format!("{n}=\"{v}\""),
        9 => format!("{{\"{n}\":\"{v}\",\"{m}\":\"{w}\"}}"),
        10 => format!("mysql -u root -p{v} shop"),
        11 => format!("--{n} {v} --{m}={w}"),
        12 => format!("curl -u ann:{v} -H \"Authorization: Bearer {w}\" https://x.example/a?{n}={v}&{m}=5"),
        13 => format!("Authorization: Basic {v}"),
        14 => format!("Cookie: {n}={v}; {m}={w}"),
        15 => format!("{n}={v}, {m}={w}"),
        16 => format!("{n}={v},{m}={w}"),
        17 => format!("[{n}: {v}]"),
        18 => format!("<{n}>{v}</{n}>"),
        19 => format!("set {n} '{v}'"),
        20 => format!("INSERT INTO users (name, {n}) VALUES ('ann', '{v}')"),
        21 => format!("{n} => {v}"),
        22 => format!("'{n}': '{v}', '{m}': '{w}'"),
        23 => n,
        24 => String::new(),
        25 => format!("export {n}={v} && ./run {w}"),
        26 => format!("{n}:\n  {v}"),
        27 => format!("{n}={v}\n{m}={w}"),
        28 => format!(
            "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n{v}\n-----END PRIVATE KEY-----"
        ),
        _ => v.len().to_string(),
    })
}
