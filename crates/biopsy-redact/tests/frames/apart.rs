//! Names that stand apart from their values: in options, statements, sentences and on lines of their own; and what looks so and is none.

use super::{check, check_clean};

const UUID: &str = "7c9e6679-7425-40de-944b-e07fc1f90ae7";

#[test]
fn options_of_one_command_name_a_value_and_hold_it() {
    check(&[
        ("Set-Item -Name 'DbPassword' -Value 'Blau77kern9x'", "Set-Item -Name 'DbPassword' -Value 'M'"),
        (
            "Set-Item -name \"DbPassword\" -value \"Blau77kern9x\"",
            "Set-Item -name \"DbPassword\" -value \"M\"",
        ),
        ("tool set --key db_password --value Blau77kern9x", "tool set --key db_password --value M"),
        ("tool set --name db_password --value=Blau77kern9x -v", "tool set --name db_password --value=M -v"),
        ("tool -Variable ApiToken -Value Blau77kern9xQz", "tool -Variable ApiToken -Value M"),
    ]);
    check_clean(&[
        "tool --file db_password --value Blau77kern9x",
        "tool --name db_port --value 5432",
        "Set-Item -Name 'DbPassword' -Value $secret",
    ]);
}

#[test]
fn statements_say_behind_a_value_whose_it_is() {
    check(&[
        (
            "UPDATE o SET option_value='Blau77kern9x' WHERE option_name='mail_password'",
            "UPDATE o SET option_value='M' WHERE option_name='mail_password'",
        ),
        (
            "UPDATE c SET value='Blau77kern9x' WHERE path='payment/a/api_password'",
            "UPDATE c SET value='M' WHERE path='payment/a/api_password'",
        ),
        ("SET PASSWORD FOR 'app'@'%' = 'Blau77kern9x';", "SET PASSWORD FOR 'app'@'%' = 'M';"),
        ("set password for app@localhost to 'Blau77kern9x'", "set password for app@localhost to 'M'"),
        ("SET PASSWORD = 'Blau77kern9x'", "SET PASSWORD = 'M'"),
    ]);
    check_clean(&[
        "UPDATE o SET option_value='Blau77kern9x' WHERE option_name='title_of_page'",
        "UPDATE c SET value='Blau77kern9x' WHERE path='general/store/name'",
        "SET PASSWORD FOR 'app'@'%' = ?",
    ]);
}

#[test]
fn sentences_announce_what_stands_below_them() {
    check(&[
        (
            "Password for the [x] user successfully reset.\nNew value: ccO29DpF7rr8oxuiW\n",
            "Password for the [x] user successfully reset.\nNew value: M\n",
        ),
        (
            "10:11:12 The token was rotated.\n10:11:12 The new value is Xq7Kd0PzaB3mQv\n",
            "10:11:12 The token was rotated.\n10:11:12 The new value is M\n",
        ),
    ]);
    check_clean(&[
        "The limit was raised.\nNew value: ccO29DpF7rr8oxuiW\n",
        "Password policy was changed.\nNew value: strict\n",
        "Password policy was changed.\nNew value: 12\n",
    ]);
}

#[test]
fn a_uuid_alone_behind_the_name_of_a_key_is_one() {
    let texts = [
        format!("secret_id             {UUID}\n"),
        format!("10:11:12  secret_id             {UUID}\n"),
        format!("shop {{\n    subscriberKey {UUID}\n}}\n"),
        format!("PARTNER_KEY={UUID}\n"),
        format!("{{\"partnerKey\":\"{UUID}\"}}"),
        format!("<webhookKey>{UUID}</webhookKey>"),
    ];
    let rows: Vec<(&str, String)> =
        texts.iter().map(|text| (text.as_str(), text.replace(UUID, "M"))).collect();
    check(&rows.iter().map(|(text, wanted)| (*text, wanted.as_str())).collect::<Vec<_>>());
    let clean = [
        format!("request {UUID} took 12 ms\n"),
        format!("cacheKey {UUID}\n"),
        format!("the agent key of user {UUID} is old\n"),
        format!("partnerId: {UUID}\n"),
    ];
    check_clean(&clean.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn users_of_addresses_are_tokens_where_the_place_of_the_password_says_so() {
    check(&[
        (
            "git+https://JKtSUAkNCKSpDuy7:x-oauth-basic@git.example.com/lib.git",
            "git+https://M:M@git.example.com/lib.git",
        ),
        ("https://q7f3kd0a92mx6c1b:x-token-auth@example.com/a", "https://M:M@example.com/a"),
    ]);
    check_clean(&["https://example.com/x-oauth-basic@v2", "https://deployments@example.com/a"]);
}

#[test]
fn operations_of_consoles_hold_values() {
    check(&[
        (
            "/system-property=DB_PASSWORD:add(value=\"Blau77kern9x\")",
            "/system-property=DB_PASSWORD:add(value=\"M\")",
        ),
        (
            "/system-property=db.password:write-attribute(name=value, value=\"Blau77kern9x\")",
            "/system-property=db.password:write-attribute(name=value, value=\"M\")",
        ),
    ]);
    check_clean(&["/system-property=DB_PORT:add(value=\"5432\")"]);
}

#[test]
fn a_phrase_may_be_a_sentence_that_says_nothing_about_secrets() {
    check(&[(
        "gpg_passphrase = The tall clock always sings after midnight.\nuser = x\n",
        "gpg_passphrase = M\nuser = x\n",
    )]);
    check_clean(&[
        "passphrase: The passphrase opens the private key.\n",
        "seed phrase: See the manual of your wallet for it.\n",
    ]);
}

#[test]
fn private_numbers_are_masked_line_by_line() {
    let lines = [
        "fb:15:8b:d7:fc:20:44:e4:e2:54:be:dd:f0:e4:88:",
        "18:a1:6e:a6:da:4a:5b:ee:c0:6b:23:de:45:0e:da:",
        "43:f0",
    ];
    let frames = ["    ", "10:11:12  ", "Nov  3 10:11:12 db1 shop[41]:     ", "+    ", "web-1  |     "];
    for frame in frames {
        let text = |lines: &[&str]| {
            let body: String = lines.iter().map(|line| format!("{frame}{line}\n")).collect();
            format!("{frame}priv:\n{body}{frame}pub:\n{frame}04:8b:1f:5a:2e\n")
        };
        check(&[(&text(&lines), &text(&["M", "M", "M"]))]);
    }
    check_clean(&["Modulus:\n    00:b5:c1:3b:86:01:36:28:2e:ab\n", "pub:\n    04:8b:1f:5a:2e:11:22:33\n"]);
}

#[test]
fn strings_may_be_in_strings_three_times() {
    let text = |value: &str| {
        let inner = format!("secret_id             {value}\nsecret_id_ttl         10m\n");
        let quoted = |text: &str| format!("{text:?}");
        format!(
            "{{\"log\":{}}}",
            quoted(&format!("{{\"message\":{}}}", quoted(&format!("{{\"body\":{}}}", quoted(&inner)))))
        )
    };
    check(&[(&text(UUID), &text("M"))]);
}
