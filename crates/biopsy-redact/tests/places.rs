//! Secrets whose place alone says what they are: words of commands, arguments of calls, rows of tables, paths of patches, documents in logs.

use biopsy_redact::{BundleKey, Options, Redactor};

fn redactor() -> Redactor {
    Redactor::new(Options { key: Some(BundleKey::from_bytes([7; 32])), ..Options::default() })
        .expect("the built-in packs are right")
}

#[test]
fn secrets_are_told_by_their_place() {
    let rules = redactor();
    let lines = [
        // Commands as lists of words.
        r#"{"args":["mysql","-u","root","-pBl#au77kern","shop"]}"#,
        r#"{"Cmd": ["redis-server", "--requirepass", "Bl#au77kern"]}"#,
        r#"command: ["mongosh", "-u", "app", "-p", "Bl#au77kern"]"#,
        "subprocess.run(['sshpass', '-p', 'Bl#au77kern', 'ssh', 'app@db1'])",
        // Programs that take a password by place.
        r"runas /user:SHOP\ann Bl#au77kern",
        "exp system/Bl#au77kern full=y file=x.dmp",
        "sqlldr userid=ann/Bl#au77kern@SHOP control=x.ctl",
        "connected as ann/Bl#au77kern@db1:1521/SHOP",
        // Calls, rows, patches.
        r#"conn = connect("db1", "ann", "Bl#au77kern")"#,
        "INSERT INTO users VALUES (1, 'ann', 'Bl#au77kern', 'Berlin'), (2, 'bob', 'Bl#au77kern', 'Ulm');",
        r#"[{"op":"replace","path":"/data/password","value":"Bl#au77kern"}]"#,
        r#"{"Key":"Smtp/Password","Value":"Bl#au77kern"}"#,
        "SELECT 1 WHERE u=$1 AND password=$2 -- PARAMETERS: ['ann', 'Bl#au77kern']",
        "java -Dtoken=Bl#au77kern -jar a.jar",
        // Tables and columns.
        "name,value\nport,80\ndb_password,Bl#au77kern\n",
        "scope,setting,value\nall,db_password,Bl#au77kern\n",
        "  host            db1\n  db_password     Bl#au77kern\n",
        "passphrase .......... : Bl#au77kern and more\n",
        " id | name | password         | active\n----+------+------------------+-------\n 7  | ann  | Bl#au77kern | t\n",
        "{\"body\":\"id,name,password,city\\n7,ann,Bl#au77kern,Berlin\\n\",\"n\":1}\n",
        // A word about the secret, and then the secret itself.
        "INFO access token revoked: 4Bl7auQx77kernV1",
        "INFO API key revoked: 4Bl7auQx77kernV1",
        "session token id: 4Bl7auQx77kernV1",
        "password hint: Bl#au77kern",
        // Documents in logs.
        "> <AdministratorPassword>\n>   <Value>Bl#au77kern</Value>\n> </AdministratorPassword>\n",
        "{\"log\":\"auth:\\n\",\"stream\":\"stdout\"}\n{\"log\":\"  password: >-\\n\",\"stream\":\"stdout\"}\n{\"log\":\"    Bl#au77kern\\n\",\"stream\":\"stdout\"}\n",
        "GET / HTTP/1.1\nCookie: lang=eng;\n SESSION=Bl#au77kern; theme=dark\n",
        "10:11:12 S: 334 UGFzc3dvcmQ6\n10:11:12 C: Qmxhdjc3a2Vybg==\n",
    ];
    let left: Vec<_> = lines
        .iter()
        .map(|line| rules.for_bundle(BundleKey::from_bytes([8; 32])).text(line).text.into_owned())
        .filter(|masked| masked.contains("77kern") || masked.contains("Qmxhdjc3"))
        .collect();
    assert!(left.is_empty(), "{left:#?}");
}

#[test]
fn what_stands_at_such_places_and_is_no_secret_stays() {
    let rules = redactor();
    for line in [
        r#"{"args":["mysql","-u","root","-p","shop"]}"#,
        r#"{"args":["tar","-p","archive.tar"]}"#,
        "runas /user:ann cmd.exe",
        "uses: actions/checkout@v4",
        "docker pull registry/shop@sha256:0a1b2c3d",
        r#"connect("db1", "ann", password)"#,
        "INSERT INTO users VALUES (1, 'ann', 'Berlin', '2026-11-01')",
        r#"[{"op":"replace","path":"/spec/replicas","value":"3"}]"#,
        r#"10.0.0.1 - - "GET / HTTP/1.1" 200 5 "https://x.example/choose-a-password" "curl/8.5.0""#,
        r#"<add key="ApiKeyHeader11" value="X-Api-Key" />"#,
        r#"<add key="TokenLifetimeMinutes15" value="orders:" />"#,
        "libfoo_token.so.20220623 -> libfoo_token.so.20220623.0.0",
        "Your password: keep it to yourself.",
        "Passwort: bitte eingeben",
        "PASS: test_login (0.02s)",
        "api_key_header: X-Api-Key",
        "  password        the password of the account",
        "name,value\npassword,required\n",
    ] {
        assert_eq!(rules.for_bundle(BundleKey::from_bytes([8; 32])).text(line).text, line);
    }
}
