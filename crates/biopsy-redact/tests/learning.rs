//! Values that were told by a key in one place, in all other places and forms; environment and command lines; and the
//! verification pass, which finds them again without knowing them.

use biopsy_redact::verify::{What, verify};
use biopsy_redact::{BundleKey, Options, RedactionLog, Redactor};

fn redactor() -> Redactor {
    Redactor::new(Options { key: Some(BundleKey::from_bytes([5; 32])), ..Options::default() })
        .expect("the built-in packs are right")
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let mut word = [0u8; 3];
        word[..chunk.len()].copy_from_slice(chunk);
        let bits = u32::from(word[0]) << 16 | u32::from(word[1]) << 8 | u32::from(word[2]);
        for at in 0..4 {
            let index = (bits >> (18 - 6 * at)) & 63;
            out.push(if at > chunk.len() { '=' } else { char::from(ALPHABET[index as usize]) });
        }
    }
    out
}

fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

const SECRET: &str = "Tr0ub\"4dor&3/ä+x";

/// The secret in every form, in a text that gives no other hint.
fn forms() -> Vec<(&'static str, Vec<u8>)> {
    let text = |form: &str| format!("connecting with {form} failed").into_bytes();
    vec![
        ("in clear", text(SECRET)),
        ("in JSON", text("Tr0ub\\\"4dor&3/ä+x")),
        ("in JSON in JSON", text("Tr0ub\\\\\\\"4dor&3/ä+x")),
        ("in JSON, ASCII", text("Tr0ub\\\"4dor&3/\\u00e4+x")),
        ("as System.Text.Json writes it", text("Tr0ub\\u00224dor\\u00263/\\u00E4\\u002Bx")),
        ("in XML", text("Tr0ub&quot;4dor&amp;3/ä+x")),
        ("percent-encoded", text("Tr0ub%224dor%263%2F%C3%A4%2Bx")),
        ("percent-encoded in lower case", text("Tr0ub%224dor%263%2f%c3%a4%2bx")),
        ("in base64", text(&base64(SECRET.as_bytes()))),
        ("in base64 behind one byte", text(&base64(format!("u{SECRET}").as_bytes()))),
        ("in base64 behind two bytes", text(&base64(format!("u:{SECRET}").as_bytes()))),
        ("in base64 of UTF-16", text(&base64(&wide(&format!("$p = '{SECRET}'"))))),
        ("in hex", text("5472307562223464 6f7226332fc3a42b78".replace(' ', "").as_str())),
        ("in UTF-16", wide(&format!("connecting with {SECRET} failed"))),
    ]
}

#[test]
fn a_learned_value_is_masked_in_every_form() {
    let redactor = redactor();
    for (how, bytes) in forms() {
        assert!(redactor.bytes(&bytes).hits.is_empty(), "{how}: found without being learned");
    }
    assert!(redactor.learn(SECRET, "DB_PASSWORD"));
    let pseudonym = redactor.pseudonym("learned", SECRET);
    for (how, bytes) in forms() {
        let redacted = redactor.bytes(&bytes);
        assert_eq!(redacted.hits.len(), 1, "{how}");
        let text = String::from_utf8_lossy(&redacted.bytes).replace('\0', "");
        assert_eq!(text, format!("connecting with {pseudonym} failed"), "{how}");
    }
}

#[test]
fn the_verification_finds_a_learned_value_in_every_form() {
    let redactor = redactor();
    redactor.learn(SECRET, "DB_PASSWORD");
    let fingerprints = redactor.fingerprints();
    assert_eq!(fingerprints.len(), 1);
    for (how, bytes) in forms() {
        // At any place, also across the windows that are looked at together.
        for before in [0usize, 1, (256 << 10) + (20 << 10) - 20, (256 << 10) + (20 << 10) - 5] {
            let mut member = if how.contains("UTF-16") && !how.contains("base64") {
                wide("- ").repeat(before / 4)
            } else {
                b"- ".repeat(before / 2)
            };
            member.extend_from_slice(&bytes);
            let findings = verify([("logs/a".to_owned(), &member[..])], &fingerprints);
            assert!(
                findings.iter().any(|f| matches!(f.what, What::Learned(_))),
                "{how}, behind {before} bytes: {findings:?}"
            );
            assert!(findings.iter().all(|f| !f.to_string().contains("Tr0ub")));
            let near = findings.iter().any(|f| f.offset.abs_diff(member.len() as u64) < 200);
            assert!(near, "{how}, behind {before} bytes: {findings:?}");
        }
    }
    let in_name = verify([(format!("logs/{SECRET}"), &b""[..])], &fingerprints);
    assert_eq!(in_name[0].what, What::LearnedInName);
}

#[test]
fn the_verification_fails_closed() {
    struct Broken;
    impl std::io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::from(std::io::ErrorKind::InvalidData))
        }
    }
    let fingerprints = redactor().fingerprints();
    let findings = verify([("a".to_owned(), Broken)], &fingerprints);
    assert_eq!(findings[0].what, What::Unreadable(std::io::ErrorKind::InvalidData));
    for (start, kind) in
        [(&b"PK\x03\x04...."[..], "zip"), (b"\x1f\x8b\x08\x00", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd")]
    {
        let findings = verify([("a".to_owned(), start)], &fingerprints);
        assert_eq!(findings[0].what, What::Opaque(kind));
    }
}

#[test]
fn an_environment_block_is_no_utf16() {
    let block = b"API_KEY=\0Ab12Cd34Ef56=x\0PASSWORD=\0LC_ALL2=Ab12Cd34\0";
    assert!(verify([("environ".to_owned(), &block[..])], &redactor().fingerprints()).is_empty());
}

#[test]
fn what_text_teaches_is_masked_elsewhere_even_in_front_of_it() {
    let redactor = redactor();
    let redacted =
        redactor.text("trying s3cr3t-x9 first\nuser=app;password=s3cr3t-x9;\nthen s3cr3t-x9 again");
    assert!(!redacted.text.contains("s3cr3t-x9"), "{}", redacted.text);
    let pseudonym = redactor.pseudonym("learned", "s3cr3t-x9");
    assert!(redacted.text.starts_with(&format!("trying {pseudonym} first")));
    assert!(redacted.text.contains(&redactor.pseudonym("password", "s3cr3t-x9")));
    assert_eq!(redactor.generation(), 1);
}

#[test]
fn common_words_are_not_learned() {
    let redactor = redactor();
    for value in [
        "",
        "short",
        "true",
        "localhost",
        "password",
        "Password",
        "postgres",
        "production",
        "my-service",
        "12345678",
        "/run/secrets/db",
        "C:\\app\\config",
        "https://example.com/x",
        "********",
        "${DB_PASSWORD}",
        "[redacted:x:01234567]",
        "redacted:",
        "changeme",
    ] {
        assert!(!redactor.learn(value, "X_PASSWORD"), "{value}");
    }
    assert_eq!(redactor.generation(), 0);
    assert!(redactor.learn("hunter2", "X_PASSWORD") && redactor.learn("hunter2", "Y_PASSWORD"));
    assert_eq!(redactor.generation(), 1);
}

#[test]
fn a_key_in_a_variable_is_learned_line_by_line() {
    let redactor = redactor();
    let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
    let _ = redactor
        .env("TLS_PRIVATE_KEY", &format!("-----BEGIN PRIVATE KEY-----\n{line}\n-----END PRIVATE KEY-----\n"));
    assert_eq!(
        redactor.text(&format!("loaded {line}")).text,
        format!("loaded {}", redactor.pseudonym("learned", line))
    );
}

#[test]
fn of_the_environment_only_allowed_values_are_shown() {
    let redactor = redactor();
    for (name, value) in [
        ("PATH", "/usr/bin:/bin"),
        ("LANG", "C.UTF-8"),
        ("LC_ALL", "C"),
        ("TZ", "Europe/Berlin"),
        ("DOTNET_gcServer", "1"),
        ("ASPNETCORE_ENVIRONMENT", "Production"),
        ("JAVA_TOOL_OPTIONS", "-Xmx2g"),
        ("EMPTY", ""),
    ] {
        let shown = redactor.env(name, value);
        assert_eq!((shown.text.as_str(), shown.masked, shown.length), (value, false, value.len()), "{name}");
    }
    let hidden = redactor.env("SHOP_MODE", "blue");
    assert_eq!(hidden.to_string(), format!("{} (4 bytes)", redactor.pseudonym("env", "blue")));
    assert!(hidden.masked);
    for name in ["DB_PASSWORD", "DOTNET_API_KEY", "ConnectionStrings__Default"] {
        let value = format!("s3cr3t-of-{name}-1");
        let shown = redactor.env(name, &value);
        assert!(shown.masked && !shown.text.contains("s3cr3t"), "{name}");
    }
    // Allowed, but with a secret inside.
    let options = redactor.env("JAVA_OPTS", "-Xmx2g -Ddb.password=hunter2x -Dx=y");
    assert_eq!(
        options.text,
        format!("-Xmx2g -Ddb.password={} -Dx=y", redactor.pseudonym("password", "hunter2x"))
    );
    // Not allowed, but it taught.
    let _ = redactor.env("DATABASE_URL", "postgres://app:t4ught-by-env@db/shop");
    let text = redactor.text("with t4ught-by-env and s3cr3t-of-DB_PASSWORD-1");
    assert!(!text.text.contains("t4ught") && !text.text.contains("s3cr3t"), "{}", text.text);
}

#[test]
fn command_lines_are_redacted_by_argument() {
    let redactor = redactor();
    let command = |args: &[&str]| -> Vec<String> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let once = redactor.command_line(&args);
        assert_eq!(once.args.len(), args.len());
        let twice = redactor.command_line(&once.args);
        assert_eq!(twice.args, once.args, "not idempotent");
        once.args
    };
    let mask = |rule: &str, value: &str| redactor.pseudonym(rule, value);
    assert_eq!(
        command(&["tool", "--password", "two words", "--x"]),
        ["tool", "--password", &mask("password", "two words"), "--x"]
    );
    assert_eq!(
        command(&["tool", "--password=two words"]),
        ["tool".to_owned(), format!("--password={}", mask("password", "two words"))]
    );
    assert_eq!(
        command(&["/usr/bin/mysql", "-uroot", "-phunter2"])[2],
        format!("-p{}", mask("command-password", "hunter2"))
    );
    assert_eq!(
        command(&["sudo", "mysqldump", "-phunter2"])[2],
        format!("-p{}", mask("command-password", "hunter2"))
    );
    assert_eq!(command(&["sshpass", "-p", "hunter2", "ssh", "x"])[2], mask("command-password", "hunter2"));
    assert_eq!(
        command(&["curl", "-u", "bob:hunter2", "x"])[2],
        format!("bob:{}", mask("command-password", "hunter2"))
    );
    assert_eq!(
        command(&["java", "-Ddb.password=hunter2", "-jar", "x.jar"])[1],
        format!("-Ddb.password={}", mask("password", "hunter2"))
    );
    assert_eq!(
        command(&["msbuild", "/p:DbPassword=hunter2"])[1],
        format!("/p:DbPassword={}", mask("password", "hunter2"))
    );
    assert_eq!(
        command(&["sh", "-c", "PGPASSWORD=hunter2 psql -h db"])[2],
        format!("PGPASSWORD={} psql -h db", mask("password", "hunter2"))
    );
    for args in [
        &["nginx", "-p", "8080", "-g", "daemon off;"][..],
        &["mysqld", "--port", "3306"],
        &["postgres", "-D", "/var/lib/postgresql", "-p", "5432"],
        &["tool", "--password-file", "/run/secrets/x", "--token-type", "jwt"],
        &["tool", "--password", "--verbose"],
        &["systemd-tty-ask-password-agent", "--watch"],
        &["docker", "run", "-p", "8080:80"],
    ] {
        assert_eq!(command(args), args, "must stay");
    }
}

#[test]
fn nothing_that_is_printed_for_debugging_holds_a_value() {
    let redactor = redactor();
    redactor.learn("hunter2-hunter2", "x");
    let log = RedactionLog::new();
    let redacted = redactor.text("password=hunter2-hunter2 ");
    log.add("logs/a", &redacted.hits);
    let mut chunks = redactor.chunks();
    chunks.push(b"password=hunter2-hunter2", &mut Vec::new());
    let printed = format!(
        "{redactor:?} {:?} {:?} {log:?} {redacted:?} {chunks:?} {:?}",
        redactor.fingerprints(),
        BundleKey::from_bytes([1; 32]),
        redactor.lines(),
    );
    assert!(!printed.contains("hunter2") && !printed.contains("1, 1, 1"), "{printed}");
    assert_eq!(log.counts()[0].count, 1);
}

#[test]
fn bundles_cannot_be_compared() {
    let one = Redactor::new(Options::default()).expect("random bytes");
    let two = Redactor::new(Options::default()).expect("random bytes");
    assert_ne!(one.text("password=hunter2").text, two.text("password=hunter2").text);
}

/// 15,000 characters that no other value has, of everything that is escaped somewhere.
fn long_value(number: usize) -> String {
    let mut state = number as u64 + 1;
    let alphabet: Vec<char> = ('!'..='~').filter(|c| *c != '=').chain([' ', 'ä']).collect();
    (0..15_000)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            alphabet[(state >> 33) as usize % alphabet.len()]
        })
        .collect()
}

#[test]
fn long_values_are_masked_in_every_form_and_as_far_as_they_go() {
    let redactor = redactor();
    let value = long_value(0);
    assert!(redactor.env("X_PASSWORD_0", &value).masked);
    let json = value.replace('\\', "\\\\").replace('"', "\\\"");
    let stays = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let percent: String = value
        .bytes()
        .map(|byte| if stays(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect();
    let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
    for (how, form) in [
        ("in clear", value.clone()),
        ("in JSON", json),
        ("percent-encoded", percent),
        ("as hex", hex),
        ("in base64", base64(value.as_bytes())),
        ("cut off", value.chars().take(9_000).collect()),
    ] {
        let text = format!("<<{form}>> end");
        let redacted = redactor.text(&text).text.into_owned();
        let pieces: Vec<String> =
            form.as_bytes().chunks(24).map(|piece| String::from_utf8_lossy(piece).into_owned()).collect();
        let left = pieces.iter().filter(|piece| piece.len() == 24 && redacted.contains(*piece)).count();
        assert!(left == 0, "{how}: {left} of {} pieces left", pieces.len());
        assert!(redacted.ends_with("> end") && redacted.len() < 400, "{how}: {}", redacted.len());
    }
    let findings = verify([("a".to_owned(), value.as_bytes())], &redactor.fingerprints());
    assert!(!findings.is_empty());
}

#[test]
fn a_hundred_long_values_cost_little_and_all_are_masked() {
    let redactor = redactor();
    let values: Vec<String> = (0..100).map(long_value).collect();
    for (number, value) in values.iter().enumerate() {
        assert!(redactor.env(&format!("X_PASSWORD_{number}"), value).masked);
    }
    let learning = redactor.learning();
    assert_eq!((learning.values, learning.refused), (400, 0));
    for value in &values {
        let redacted = redactor.text(value);
        assert!(redacted.text.len() < 400, "{}", redacted.text.len());
    }
}

#[test]
fn what_is_beyond_the_budget_is_said_and_masked_behind_its_key() {
    let redactor = redactor();
    for number in 0..10_000 {
        assert!(redactor.env("X_PASSWORD", &format!("Va1ue{number:06}")).masked);
    }
    let learning = redactor.learning();
    assert_eq!((learning.values, learning.refused), (8192, 10_000 - 8192));
    let text = redactor.text("password=Va1ue009999; Va1ue000001, Va1ue009999").text.into_owned();
    assert!(!text.contains("Va1ue000001") && text.ends_with(", Va1ue009999"), "{text}");
    assert!(text.starts_with("password=[redacted:password:"), "{text}");
}
