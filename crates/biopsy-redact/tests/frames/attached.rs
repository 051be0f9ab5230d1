//! How a value may be attached to its name: each way of `docs/design/04-redaction.md` at once, in pieces, in UTF-16 and twice, and beside each
//! what looks like it and is none.

use crate::{check, check_clean};

#[test]
fn behind_a_sign() {
    check(&[
        ("password=Ku8treBlau", "password=M"),
        ("password: Ku8treBlau", "password: M"),
        ("password => Ku8treBlau", "password => M"),
        ("password := Ku8treBlau", "password := M"),
        ("\"password\":\"Ku8treBlau\"", "\"password\":\"M\""),
        ("\\\"password\\\":\\\"Ku8treBlau\\\"", "\\\"password\\\":\\\"M\\\""),
        ("{\"password\":41736524}", "{\"password\":\"M\"}"),
        ("password%3DKu8treBlau%26x%3D1", "password%3DM%26x%3D1"),
        ("user[password]=Ku8treBlau", "user[password]=M"),
        ("?user=ann&password=Ku8treBlau&page=2", "?user=ann&password=M&page=2"),
        ("Server=db1;Password=Ku8tre Blau;Encrypt=true", "Server=db1;Password=M;Encrypt=true"),
        ("spring.datasource.password=Ku8treBlau", "spring.datasource.password=M"),
        ("DbPassword = \"Ku8treBlau\"", "DbPassword = \"M\""),
        ("x-api-key: Ku8treBlau7Zq4", "x-api-key: M"),
    ]);
    check_clean(&[
        "password=",
        "password=${DB_PASSWORD}",
        "password=****",
        "password: null",
        "PASSWORD_MIN_LENGTH=12",
        "password=#{vault.password}",
        "\"password\":{{ password }}",
        "password=$1",
        "password=@password",
        "form.password = form.password",
    ]);
}

#[test]
fn as_an_option() {
    check(&[
        ("app --password Ku8treBlau --port 80", "app --password M --port 80"),
        ("app --password=Ku8treBlau --port 80", "app --password=M --port 80"),
        ("app --password 'Ku8treBlau'", "app --password 'M'"),
        ("[\"--password\", \"Ku8treBlau\"]", "[\"--password\", \"M\"]"),
        ("app\0--password\0Ku8treBlau\0--port\08080\0", "app\0--password\0M\0--port\08080\0"),
    ]);
    check_clean(&[
        "app --password --port 80",
        "  --password        ask for one",
        "  -pass val     Private key",
    ]);
}

#[test]
fn in_an_element_or_an_attribute() {
    check(&[
        ("<password>Ku8treBlau</password>", "<password>M</password>"),
        ("<password type=\"plain\">Ku8treBlau</password>", "<password type=\"plain\">M</password>"),
        ("<password><![CDATA[Ku8treBlau]]></password>", "<password><![CDATA[M]]></password>"),
        ("&lt;password&gt;Ku8treBlau&lt;/password&gt;", "&lt;password&gt;M&lt;/password&gt;"),
        ("<add key=\"DbPassword\" value=\"Ku8treBlau\" />", "<add key=\"DbPassword\" value=\"M\" />"),
        ("{\"name\":\"DB_PASSWORD\",\"value\":\"Ku8treBlau\"}", "{\"name\":\"DB_PASSWORD\",\"value\":\"M\"}"),
        ("- name: DB_PASSWORD\n  value: Ku8treBlau\n", "- name: DB_PASSWORD\n  value: M\n"),
    ]);
    check_clean(&[
        "<password></password>",
        "<password/>",
        "<add key=\"DbPassword\" value=\"\" />",
        "<xs:element name=\"password\" type=\"xs:string\" />",
    ]);
}

#[test]
fn in_a_list_an_object_or_a_block() {
    check(&[
        ("{\"passwords\":[\"Ku8treBlau\",\"Ve5gaRot\"]}", "{\"passwords\":[\"M\",\"M\"]}"),
        ("password: |\n  Ku8treBlau\nport: 80\n", "password: |\n  M\nport: 80\n"),
        ("password: >-\n  Ku8treBlau\nport: 80\n", "password: >-\n  M\nport: 80\n"),
        ("[\"mysql\", \"-pKu8treBlau\"]", "[\"mysql\", \"-pM\"]"),
    ]);
    check_clean(&["{\"passwords\":[]}", "{\"password\":{}}", "password: |\nport: 80\n"]);
}

#[test]
fn in_a_cell_a_row_or_a_column() {
    check(&[
        ("password\tKu8treBlau\n", "password\tM\n"),
        ("\"password\",\"Ku8treBlau\"\n", "\"password\",\"M\"\n"),
        ("map.put(\"password\", \"Ku8treBlau\")", "map.put(\"password\", \"M\")"),
        ("<td>password</td><td>Ku8treBlau</td>", "<td>password</td><td>M</td>"),
        ("<name>password</name><value>Ku8treBlau</value>", "<name>password</name><value>M</value>"),
        ("id,password\n1,Ku8treBlau\n2,Ve5gaRot\n", "id,password\n1,M\n2,M\n"),
        ("| id | password |\n|---|---|\n| 1 | Ku8treBlau |\n", "| id | password |\n|---|---|\n| 1 | M |\n"),
        ("name,value\npassword,Ku8treBlau\n", "name,value\npassword,M\n"),
    ]);
    check_clean(&["id,password\n", "password\tusername\n", "| id | password |\n|---|---|\n| 1 | |\n"]);
}

#[test]
fn beside_or_in_a_sentence() {
    check(&[
        ("password 'Ku8tre99Blau'", "password 'M'"),
        ("DB_PASSWORD Ku8tre99Blau", "DB_PASSWORD M"),
        ("the password is Ku8tre99Blau", "the password is M"),
        ("passphrase for key.pem: \"Ku8tre99Blau\"", "passphrase for key.pem: \"M\""),
    ]);
    check_clean(&[
        "the password is wrong",
        "password authentication failed for user \"ann\"",
        "using password: YES",
        "password expired 3 days ago",
        "reset the password of ann",
        "token expired at 2026-11-29T10:00:00Z",
    ]);
}
