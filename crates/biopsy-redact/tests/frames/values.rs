//! Where a value begins and where it ends, for each way that a name and a value are attached.

use super::{check, check_clean};

#[test]
fn values_stand_behind_a_sign() {
    check(&[
        ("password=Blau77kern9x", "password=M"),
        ("password = Blau77kern9x\n", "password = M\n"),
        ("password:Blau77kern9x\n", "password:M\n"),
        ("password := \"Blau77kern9x\"", "password := \"M\""),
        ("password => \"Blau77kern9x\",", "password => \"M\","),
        ("password -> \"Blau77kern9x\"", "password -> \"M\""),
        ("password ~> Blau77kern9x", "password ~> M"),
        ("password <- \"Blau77kern9x\"", "password <- \"M\""),
        ("PASSWORD ?= Blau77kern9x", "PASSWORD ?= M"),
        ("PASSWORD += Blau77kern9x", "PASSWORD += M"),
        ("if (password == \"Blau77kern9x\") {", "if (password == \"M\") {"),
        ("if (password !== 'Blau77kern9x') {", "if (password !== 'M') {"),
        ("password\u{ff1a}Blau77kern9x", "password\u{ff1a}M"),
        ("password%3DBlau77kern9x%26user%3Dann", "password%3DM%26user%3Dann"),
        ("password%3aBlau77kern9x", "password%3aM"),
        ("x\\u0022password\\u0022:\\u0022Blau77kern9x\\u0022", "x\\u0022password\\u0022:\\u0022M\\u0022"),
        ("a:2:{s:8:\"password\";s:12:\"Blau77kern9x\";}", "a:2:{s:8:\"password\";s:12:\"M\";}"),
        ("userPassword:: Qmxhdjc3a2Vybg==\nuid: a\n", "userPassword:: M\nuid: a\n"),
        ("password .......... : Blau77kern9x\n", "password .......... : M\n"),
        (
            "public string Password { get; set; } = \"Blau77kern9x\";",
            "public string Password { get; set; } = \"M\";",
        ),
        ("let password: String = \"Blau77kern9x\";", "let password: String = \"M\";"),
        ("token - 'Blau77kern9x'", "token - 'M'"),
        ("X-Vault-Token: Blau77kern9x\r\n", "X-Vault-Token: M\r\n"),
        ("Unseal Key 1: Blau77kern9xBlau77kern9x\n", "Unseal Key 1: M\n"),
        // On the next line.
        ("{\"password\":\n  \"Blau77kern9x\"}", "{\"password\":\n  \"M\"}"),
        ("const apiKey =\n  \"Blau77kern9xQz\";", "const apiKey =\n  \"M\";"),
        ("password = \\\n  Blau77kern9x\n", "password = \\\n  M\n"),
        ("Enter password:\nBlau77kern9x\n", "Enter password:\nM\n"),
        ("password: |\n  Blau77kern9x\nuser: ann\n", "password: |\n  M\nuser: ann\n"),
    ]);
}

#[test]
fn values_end_where_the_syntax_around_them_goes_on() {
    check(&[
        ("Server=db1;Password=Blau 77 kern;Encrypt=true", "Server=db1;Password=M;Encrypt=true"),
        ("Server=db1;Password=Blau77kern9x", "Server=db1;Password=M"),
        ("/a?password=Blau77kern9x&lang=en#top", "/a?password=M&lang=en#top"),
        ("/a?lang=en&password=Blau77kern9x HTTP/1.1", "/a?lang=en&password=M HTTP/1.1"),
        ("/a?password=Blau77kern9x#top", "/a?password=M#top"),
        ("a[password]=Blau77kern9x&b=1", "a[password]=M&b=1"),
        ("a[\"password\"] = \"Blau77kern9x\"", "a[\"password\"] = \"M\""),
        ("(password=Blau77kern9x)", "(password=M)"),
        ("[password=Blau77kern9x]", "[password=M]"),
        ("{password=Blau77kern9x}", "{password=M}"),
        ("<password=Blau77kern9x>", "<password=M>"),
        ("password=Blau77)kern9x", "password=M"),
        ("\"password=Blau77kern9x\" is wrong", "\"password=M\" is wrong"),
        ("'password=Blau77kern9x' is wrong", "'password=M' is wrong"),
        ("`password=Blau77kern9x` is wrong", "`password=M` is wrong"),
        ("password=Blau'77\"kern9x", "password=M"),
        ("password=\"Blau 77 kern\" user=ann", "password=\"M\" user=ann"),
        ("password='Blau\\'77' user=ann", "password='M' user=ann"),
        ("password=\"\"\"Blau77\nkern9x\"\"\" user=ann", "password=\"\"\"M\"\"\" user=ann"),
        ("password=Blau77kern9x, user=ann", "password=M, user=ann"),
        ("password=Blau77kern9x,user=ann", "password=M,user=ann"),
        ("password=Blau77kern9x; user=ann", "password=M; user=ann"),
        ("password=Blau77,kern9x", "password=M"),
        ("password=Blau77;kern9x", "password=M"),
        ("password=Blau77kern9x.", "password=M"),
        ("password=Blau77kern9x|wc", "password=M"),
        ("password=Blau77kern9x | wc", "password=M | wc"),
        ("password=Blau77kern9x\tuser=ann", "password=M\tuser=ann"),
        ("password=Blau77kern9x\0user=ann", "password=M\0user=ann"),
        ("log password=Blau77kern9x<br>next", "log password=M<br>next"),
        ("{\"m\":\"password=Blau77kern9x\\nuser=ann\"}", "{\"m\":\"password=M\\nuser=ann\"}"),
        ("{\"m\":\"password=Blau77kern9x\"}", "{\"m\":\"password=M\"}"),
        ("{\"m\":\"password=\\\"Blau77 kern9x\\\" x\"}", "{\"m\":\"password=\\\"M\\\" x\"}"),
    ]);
}

#[test]
fn several_values_may_stand_behind_one_name() {
    check(&[
        ("{\"tokens\":[\"Blau77kern9x\",\"Rot88kern7y\"],\"n\":1}", "{\"tokens\":[\"M\",\"M\"],\"n\":1}"),
        ("password: ['Blau77kern9x', 'Rot88kern7y']", "password: ['M', 'M']"),
        (
            "{\"password\":{\"HasValue\":true,\"NewValue\":\"Blau77kern9x\"}}",
            "{\"password\":{\"HasValue\":true,\"NewValue\":\"M\"}}",
        ),
        ("password: \"Blau77kern9x\" -> \"Rot88kern7y\"", "password: \"M\" -> \"M\""),
        ("password=Blau77kern9x\npassword=Rot88kern7y\n", "password=M\npassword=M\n"),
        ("password=Blau77kern9x token=Rot88kern7yQz user=ann", "password=M token=M user=ann"),
        ("{\"password\":123456,\"n\":1}", "{\"password\":\"M\",\"n\":1}"),
        ("{\"tokens\":[],\"n\":1}", "{\"tokens\":[],\"n\":1}"),
        ("{\"password\":{}}", "{\"password\":{}}"),
    ]);
}

#[test]
fn values_stand_in_elements_and_attributes() {
    check(&[
        ("<password>Blau77kern9x</password>", "<password>M</password>"),
        ("<x:password a=\"b\">Blau77kern9x</x:password>", "<x:password a=\"b\">M</x:password>"),
        ("<password><![CDATA[Blau77]kern9x]]></password>", "<password><![CDATA[M]]></password>"),
        ("&lt;password&gt;Blau77kern9x&lt;/password&gt;", "&lt;password&gt;M&lt;/password&gt;"),
        ("<password><value>Blau77kern9x</value></password>", "<password><value>M</value></password>"),
        ("<add key=\"password\" value=\"Blau77kern9x\"/>", "<add key=\"password\" value=\"M\"/>"),
        ("<add value=\"Blau77kern9x\" key=\"password\"/>", "<add value=\"M\" key=\"password\"/>"),
        ("<add key='Db:Password' value='Blau77kern9x'/>", "<add key='Db:Password' value='M'/>"),
        ("{\"name\":\"password\",\"value\":\"Blau77kern9x\"}", "{\"name\":\"password\",\"value\":\"M\"}"),
        ("{\"k\":\"password\",\"v\":\"Blau77kern9x\"}", "{\"k\":\"password\",\"v\":\"M\"}"),
        ("- name: DB_PASSWORD\n  value: Blau77kern9x\n", "- name: DB_PASSWORD\n  value: M\n"),
        (
            "<item name=\"password\" type=\"string\">Blau77kern9x</item>",
            "<item name=\"password\" type=\"string\">M</item>",
        ),
        ("<td>password</td><td>Blau77kern9x</td>", "<td>password</td><td>M</td>"),
        // What has no beginning may be a part of the value.
        ("password: Blau77</b>kern9x4", "password: M</b>M"),
        ("<b>password: Blau77kern9x</b>kern5x", "<b>password: M</b>kern5x"),
    ]);
}

#[test]
fn values_stand_beside_their_name() {
    check(&[
        ("set password 'Blau77kern9x'", "set password 'M'"),
        ("password is Blau77kern9x", "password is M"),
        ("the password was \"Blau77kern9x\".", "the password was \"M\"."),
        ("DB_PASSWORD Blau77kern9x", "DB_PASSWORD M"),
        ("  password Blau77kern9x;\n", "  password M;\n"),
        ("--password Blau77kern9x --user ann", "--password M --user ann"),
        ("-Password Blau77kern9x -User ann", "-Password M -User ann"),
        ("[\"--password\", \"Blau77kern9x\"]", "[\"--password\", \"M\"]"),
        ("tool\0--password\0Blau77kern9x\0--user\0ann", "tool\0--password\0M\0--user\0ann"),
        ("net use /password Blau77kern9x", "net use /password M"),
        ("put(\"password\", \"Blau77kern9x\")", "put(\"password\", \"M\")"),
        ("password\tBlau77kern9x\n", "password\tM\n"),
        ("| password | Blau77kern9x |\n", "| password | M |\n"),
        ("Das Passwort lautet Blau77kern9x", "Das Passwort lautet M"),
    ]);
}

/// Beside each of them stands above how it looks with a secret.
#[test]
fn what_looks_like_a_value_and_is_none_stays() {
    check_clean(&[
        "password=",
        "password=\n",
        "password=\"\"",
        "password=****",
        "password=null",
        "password=${DB_PASS}",
        "password: {{ vault_password }}",
        "password=%PASSWORD%",
        "password=[FILTERED]",
        "password=form.password",
        "password = readPassword();",
        "password: string",
        "password: 3 failures",
        "password: must not be empty",
        "${PASSWORD:?it is not set}",
        "std::password::Hasher",
        "gpg-preset-passphrase -> ../gnupg/gpg-preset-passphrase",
        "PASSWORD_MIN_LENGTH=12",
        "PasswordHasher=Argon2id",
        "max_tokens=4096",
        "--password-file /run/secrets/db --verbose",
        "--password --verbose",
        "--no-password        never prompt for a password",
        "GET /password reset",
        "using password: YES",
        "ValueTask<AccessToken>.GetAwaiter()",
        "<GetAccessToken>d__5.MoveNext()",
        "<password/>",
        "<password></password>",
        "PublicKeyToken=b77a5c561934e089",
        "commit 5be8a3f6c8a5c01d106c0ad820b1a390b168d356",
        "id: 123e4567-e89b-12d3-a456-426614174000",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "the token bucket is empty, 5 tokens left",
        "a secret-santa list, page=2",
    ]);
}

/// In each frame, with what a value may hold: bytes of other scripts, signs, and very long ones.
#[test]
fn values_of_every_alphabet_are_masked_whole() {
    let values = [
        "Blau77kern9x",
        "bläu77kérn9x",
        "пароль77кern",
        "密码77kern9xQ",
        "🦀Blau77kern",
        "Bl#au$77%kern!",
        "B^l&au*77(kern)",
        "+Blau/77kern==",
        "-Blau77-kern9x",
        "~Blau77.kern9x_",
        "0123456789012345",
        "b1946ac92492d2347c6235b4d2611184",
        &"Blau77kern9x".repeat(300),
    ];
    for value in values {
        let quoted = [
            format!("password=\"{value}\""),
            format!("{{\"user\":\"ann\",\"password\":\"{value}\",\"n\":1}}"),
            format!("password: '{value}'\nuser: ann\n"),
            format!("<add key=\"password\" value=\"{}\"/>", value.replace('&', "&amp;")),
        ];
        for text in quoted {
            let value = if text.starts_with('<') { value.replace('&', "&amp;") } else { value.to_owned() };
            let wanted = text.replace(&value, "M");
            check(&[(&text, &wanted)]);
        }
    }
}
