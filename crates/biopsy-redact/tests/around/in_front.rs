//! What programs put in front of each line, or around it, changes nothing: a value that is masked in a line alone is masked behind a logger, a
//! number, a sign of a diff, a quotation, a container's name, in a comment, in a list.

use super::{ENDED, masked, redactor};

/// Lines that go on behind their value, or do not say where it ends.
const OPEN: [&str; 16] = [
    "password={v}",
    "password: {v}",
    "password = {v}",
    "db.password = {v}",
    "DB_PASSWORD={v}",
    "\"password\": \"{v}\",",
    "export DB_PASSWORD={v}",
    "set DB_PASSWORD={v}",
    "app --password={v} --yes",
    "user=ann&password={v}&x=1",
    "Cookie: sid={v}; theme=dark",
    "Set-Cookie: sid={v}; Path=/; HttpOnly",
    "Authorization: Bearer {v}",
    "X-Api-Key: {v}",
    "Invalid password: {v} for user ann",
    "    ApiPassword    REG_SZ    {v}",
];

/// What stands around a line, with `{l}` where it stands.
const AROUND: [&str; 26] = [
    "{l}",
    "2026-11-29 05:06:07,123 INFO  [main] o.s.Boot - {l}",
    "[2026-11-29T05:06:07Z] shop.DEBUG: {l}",
    "Nov 29 05:06:07 db1 shop[4711]: {l}",
    "<13>1 2026-11-29T05:06:07Z db1 shop 4711 - - {l}",
    "05:06:07 I | {l}",
    "   41\t{l}",
    "41:{l}",
    "settings.txt:41:{l}",
    "41 | {l}",
    "+{l}",
    "-{l}",
    "+ {l}",
    "> {l}",
    "> > {l}",
    "web-1  | {l}",
    "# {l}",
    "// {l}",
    "; {l}",
    " * {l}",
    "- {l}",
    "`{l}`",
    "  {l}",
    "\t{l}",
    "$ {l}",
    "{l}\r",
];

/// Values: a password that somebody made up, one that a program made, a token, one of signs.
const VALUES: [&str; 4] = ["Bl#au77kern", "q7f3kd0a92mx6c1b", "9fKq2LxV7bTn4WsYc8EdPm", "Kd8!js-Qm2.x7"];

#[test]
fn a_value_is_masked_whatever_stands_in_front_of_its_line() {
    let rules = redactor();
    let mut left = Vec::new();
    for line in ENDED.into_iter().chain(OPEN) {
        for value in VALUES {
            let line = line.replace("{v}", value);
            for around in AROUND {
                // A quote of Markdown ends where one of the line does.
                if around.contains('`') && line.contains('`') {
                    continue;
                }
                let text = around.replace("{l}", &line);
                let masked = masked(&rules, &text);
                if masked.contains(value) {
                    left.push(text);
                }
            }
        }
    }
    assert!(left.is_empty(), "{} left: {:#?}", left.len(), &left[..left.len().min(60)]);
}

#[test]
fn clean_lines_stay_whatever_stands_in_front_of_them() {
    let rules = redactor();
    let lines = [
        "password: ********",
        "password: ${DB_PASSWORD}",
        "password: !vault-ref shop/db",
        "Passwort: wird bei der Anmeldung erfragt",
        "Access denied for user 'app'@'localhost' (using password: YES)",
        "the option --passphrase-fd needs a value",
        "token_type=bearer",
        "password_length=24",
        "commit 7f3c0a1b9d2e4f60718293a4b5c6d7e8f9012345",
        "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "var password = Environment.GetEnvironmentVariable(\"DB_PASSWORD\");",
        "SELECT id FROM users WHERE password = @p1",
        "keytab: /etc/krb5.keytab",
    ];
    for line in lines {
        for around in AROUND {
            let text = around.replace("{l}", line);
            let masked = masked(&rules, &text);
            assert_eq!(masked, text);
        }
    }
}
