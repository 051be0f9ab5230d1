//! What stands around a line changes nothing: the value in it is masked, and nothing else is.

mod behind;
mod in_front;

use biopsy_redact::{BundleKey, Options, Redactor};

/// Lines that say where their value ends, with `{v}` where it stands.
const ENDED: [&str; 28] = [
    "password=\"{v}\"",
    "password: '{v}'",
    "{\"password\":\"{v}\"}",
    "$env:DB_PASSWORD = \"{v}\"",
    "<password>{v}</password>",
    "<add key=\"DbPassword\" value=\"{v}\" />",
    "app --password {v} --yes",
    "app --db-password '{v}'",
    "mysql -uapp -p{v} shop",
    "sshpass -p {v} ssh app@db1",
    "curl -u app:{v} https://example.com",
    "PGPASSWORD={v} psql -h db1",
    "postgres://app:{v}@db1/shop",
    "https://app:{v}@example.com/x",
    "Server=db1;User Id=app;Password={v};Encrypt=true",
    "GET /login?user=ann&password={v}&x=1 HTTP/1.1",
    "Login failed for ann using password '{v}' from 10.0.0.1",
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
    "PROPERTY CHANGE: Adding DB_PASSWORD property. Its value is '{v}'.",
];

fn redactor() -> Redactor {
    Redactor::new(Options { key: Some(BundleKey::from_bytes([7; 32])), ..Options::default() })
        .expect("the built-in packs are right")
}

/// A text of its own, of which nothing was learned elsewhere.
fn masked(rules: &Redactor, text: &str) -> String {
    rules.for_bundle(BundleKey::from_bytes([8; 32])).text(text).text.into_owned()
}
