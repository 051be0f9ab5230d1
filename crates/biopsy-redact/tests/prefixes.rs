//! What programs put in front of each line, or around it, changes nothing: a value that is masked in a line alone is masked behind a logger, a
//! number, a sign of a diff, a quotation, a container's name, in a comment, in a list.

use biopsy_redact::{BundleKey, Options, Redactor};

/// Lines, with `{v}` where a value stands.
const LINES: [&str; 44] = [
    "password={v}",
    "password: {v}",
    "password = {v}",
    "password=\"{v}\"",
    "password: '{v}'",
    "db.password = {v}",
    "DB_PASSWORD={v}",
    "\"password\": \"{v}\",",
    "{\"password\":\"{v}\"}",
    "export DB_PASSWORD={v}",
    "set DB_PASSWORD={v}",
    "$env:DB_PASSWORD = \"{v}\"",
    "<password>{v}</password>",
    "<add key=\"DbPassword\" value=\"{v}\" />",
    "app --password {v} --yes",
    "app --password={v} --yes",
    "app --db-password '{v}'",
    "mysql -uapp -p{v} shop",
    "sshpass -p {v} ssh app@db1",
    "curl -u app:{v} https://example.com",
    "PGPASSWORD={v} psql -h db1",
    "postgres://app:{v}@db1/shop",
    "https://app:{v}@example.com/x",
    "Server=db1;User Id=app;Password={v};Encrypt=true",
    "GET /login?user=ann&password={v}&x=1 HTTP/1.1",
    "user=ann&password={v}&x=1",
    "Cookie: sid={v}; theme=dark",
    "Set-Cookie: sid={v}; Path=/; HttpOnly",
    "Authorization: Bearer {v}",
    "X-Api-Key: {v}",
    "Login failed for ann using password '{v}' from 10.0.0.1",
    "Invalid password: {v} for user ann",
    "(user=ann, password={v})",
    "User{name='ann', password='{v}'}",
    ":password => \"{v}\"",
    "config[\"Password\"] = \"{v}\"",
    "CREATE USER 'ann'@'%' IDENTIFIED BY '{v}'",
    "UPDATE users SET password='{v}' WHERE id=7",
    "INSERT INTO users (name, password) VALUES ('ann', '{v}')",
    "define('DB_PASSWORD', '{v}');",
    "{password,\"{v}\"}",
    "getenv(\"DB_PASSWORD\") = \"{v}\"",
    "    ApiPassword    REG_SZ    {v}",
    "PROPERTY CHANGE: Adding DB_PASSWORD property. Its value is '{v}'.",
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
    let rules = Redactor::new(Options { key: Some(BundleKey::from_bytes([7; 32])), ..Options::default() })
        .expect("the built-in packs are right");
    let mut left = Vec::new();
    for line in LINES {
        for value in VALUES {
            let line = line.replace("{v}", value);
            for around in AROUND {
                // A quote of Markdown ends where one of the line does.
                if around.contains('`') && line.contains('`') {
                    continue;
                }
                let text = around.replace("{l}", &line);
                let masked = rules.for_bundle(BundleKey::from_bytes([8; 32])).text(&text).text.into_owned();
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
    let rules = Redactor::new(Options { key: Some(BundleKey::from_bytes([7; 32])), ..Options::default() })
        .expect("the built-in packs are right");
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
            let masked = rules.for_bundle(BundleKey::from_bytes([8; 32])).text(&text).text.into_owned();
            assert_eq!(masked, text);
        }
    }
}
