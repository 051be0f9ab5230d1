//! What stands behind the name of a secret and is none, by what is around it: names of resources, tests of code, rules for users,
//! templates.

use std::ops::Range;

use crate::words::words_of;

/// How far the line of a value is looked at, in bytes.
const REACH: usize = 160;
/// What names of secrets end in that are kept elsewhere: `shop-db-credentials`.
const KINDS_OF_SECRETS: [&[u8]; 22] = [
    b"tls",
    b"secret",
    b"secrets",
    b"cert",
    b"certs",
    b"certificate",
    b"creds",
    b"cred",
    b"credentials",
    b"auth",
    b"key",
    b"keys",
    b"token",
    b"tokens",
    b"password",
    b"passwords",
    b"config",
    b"env",
    b"ca",
    b"db",
    b"registry",
    b"postgresql",
];

/// Is the value of this name no secret, by what stands around them? Each of these asks for more than one sign: a secret that is left is
/// worse than a word that is masked.
pub(crate) fn is_harmless(text: &[u8], name: &Range<usize>, value: &Range<usize>, quoted: bool) -> bool {
    if value.start < name.end {
        return false;
    }
    let line_start =
        name.start - text[..name.start].iter().rev().take(REACH).take_while(|b| **b != b'\n').count();
    let line_end = value.end + text[value.end..].iter().take(REACH).take_while(|b| **b != b'\n').count();
    let before = &text[line_start..name.start];
    let between = &text[name.end..value.start];
    let behind = &text[value.end..line_end];
    let is_closed = memchr::memmem::find(&text[value.start..line_end], b"}}").is_some();
    let before_value = &text[value.start.saturating_sub(24)..value.start];
    let (name, value) = (&text[name.clone()], &text[value.clone()]);
    is_label_of_resource(before, between)
        || is_label_of_metric(before, name, between, value)
        || is_rule_of_framework(between, value, behind)
        || is_pinned(before_value)
        || is_bound(before, between, name, value)
        || is_name_in_list(between, value)
        || is_variable_of_psql(between, value)
        || is_name_in_store(before, name)
        || is_optional_argument(before, between, value)
        || !quoted
            && (is_closed && is_path_in_template(before, between)
                || is_tested(before, between, value)
                || is_placeholder_of_words(value, behind)
                || is_rule_for_users(value, behind)
                || is_instruction(value, behind)
                || is_user_of_pair(name, behind)
                || is_database_of_client(before, between, value, behind)
                || is_digest_behind_word(name, value)
                || is_kind_of_object(between, value, behind)
                || is_ticket_of_job(before, name, between, value)
                || is_rule_of_letters(value)
                || is_rule_of_identity(between, value, behind)
                || is_mount(before, name, between, value)
                || is_accessor(name, between, value, behind)
                || is_name_of_secret(name, between, value))
}

/// `kube_secret_info{namespace="shop",secret="shop-db"} 1`: a label of a metric, and what an object of Kubernetes is called; also inside
/// of a string.
fn is_label_of_metric(before: &[u8], name: &[u8], between: &[u8], value: &[u8]) -> bool {
    const NAME_MAX: usize = 63;
    let open = before.iter().rposition(|b| *b == b'{');
    let metric = open.map_or(&before[..0], |open| &before[..open]);
    let is_of_metric = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b':');
    name == b"secret"
        && without_quote(between) == b"="
        && metric.last().is_some_and(is_of_metric)
        && memchr::memmem::find(before, b"namespace=").is_some()
        && value.len() <= NAME_MAX
        && value.contains(&b'-')
        && value.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

/// Without the quote that opens a value, which may have backslashes in a string.
fn without_quote(between: &[u8]) -> &[u8] {
    let Some(sign) = between.strip_suffix(b"\"") else { return between };
    &sign[..sign.iter().rposition(|b| *b != b'\\').map_or(0, |last| last + 1)]
}

/// `'password' => ['required', 'confirmed']`: what a framework checks.
fn is_rule_of_framework(between: &[u8], value: &[u8], behind: &[u8]) -> bool {
    const CHECKS: [&[u8]; 6] =
        [b"required", b"nullable", b"sometimes", b"string", b"confirmed", b"current_password"];
    // `'min:12'` behind one of them.
    let is_bound = value.iter().rposition(|b| *b == b':').is_some_and(|colon| {
        let (name, number) = (&value[..colon], &value[colon + 1..]);
        !name.is_empty()
            && name.iter().all(|b| b.is_ascii_lowercase() || *b == b'_')
            && (1..=3).contains(&number.len())
            && number.iter().all(u8::is_ascii_digit)
    });
    let follows =
        || between.split(|b| *b == b'\'').any(|word| CHECKS.contains(&word)) && between.ends_with(b"', '");
    memchr::memmem::find(between, b"=> [").is_some()
        && (CHECKS.contains(&value) && behind.starts_with(b"', ") || is_bound && follows())
}

/// `PASSWORD :'password'`: what psql fills in.
fn is_variable_of_psql(between: &[u8], value: &[u8]) -> bool {
    between.trim_ascii() == b":'" && value.iter().all(|b| b.is_ascii_lowercase() || *b == b'_')
}

/// `gcloud secrets versions access latest --secret=db-password`: which one of those that are kept there.
fn is_name_in_store(before: &[u8], name: &[u8]) -> bool {
    name == b"secret"
        && before.ends_with(b" --")
        && memchr::memmem::find(before, b"gcloud ").is_some()
        && memchr::memmem::find(before, b"secrets ").is_some()
}

/// `Zugangsdaten: backup / Blau77kern`: the user; the password behind the slash has a rule of its own.
fn is_user_of_pair(name: &[u8], behind: &[u8]) -> bool {
    const NAMES: [&[u8]; 4] = [b"zugangsdaten", b"anmeldedaten", b"logindaten", b"credenciales"];
    behind.starts_with(b" / ") && NAMES.iter().any(|one| one.eq_ignore_ascii_case(name))
}

/// `Password: leave empty to keep the old one`, `Passwort: siehe KeePass`, `password: same as on db2`: what to do, and where to look.
fn is_instruction(value: &[u8], behind: &[u8]) -> bool {
    const SAYS: [(&[u8], &[&[u8]]); 8] = [
        (b"leave", &[b" empty", b" blank", b" it ", b" this ", b" unset", b" as "]),
        (b"same", &[b" as ", b" for ", b" like ", b" on "]),
        (b"siehe", &[b" "]),
        (b"voir", &[b" "]),
        (b"vedi", &[b" "]),
        (b"zie", &[b" "]),
        (b"wie", &[b" bei ", b" auf ", b" oben", b" immer"]),
        (b"permission", &[b" denied"]),
    ];
    let word = value.iter().position(|b| *b == b' ').unwrap_or(value.len());
    SAYS.iter().find(|(first, _)| first.eq_ignore_ascii_case(&value[..word])).is_some_and(|(_, next)| {
        // A value may have been read to the end of its line, or to the end of its first word.
        next.iter()
            .any(|next| value[word..].starts_with(next) || word == value.len() && behind.starts_with(next))
    })
}

/// `[-storepass <password>]     password for the store`: what the help of a program says of an option that may be left out.
fn is_optional_argument(before: &[u8], between: &[u8], value: &[u8]) -> bool {
    between == b">"
        && before.ends_with(b"<")
        && value.starts_with(b"]")
        && memchr::memmem::find(before, b"[-").is_some()
}

/// `Password:RequireNonAlphanumeric=false`: what a password must be like, as a setting.
fn is_rule_of_identity(between: &[u8], value: &[u8], behind: &[u8]) -> bool {
    let (rule, set) = match value.iter().position(|b| *b == b'=') {
        Some(sign) => (&value[..sign], &value[sign + 1..]),
        None => (value, behind.strip_prefix(b"=").unwrap_or_default()),
    };
    let is_number = !set.is_empty() && set.iter().all(u8::is_ascii_digit);
    between == b":"
        && rule.starts_with(b"Require")
        && rule.iter().all(u8::is_ascii_alphabetic)
        && (is_number || set.eq_ignore_ascii_case(b"true") || set.eq_ignore_ascii_case(b"false"))
}

/// `pin-sha256="cUPcTAZW..."`: the digest of a public key (RFC 7469).
fn is_pinned(before_value: &[u8]) -> bool {
    without_quote(before_value).ends_with(b"pin-sha256=")
}

/// `:password="form.password"` of a template: what it is bound to.
fn is_bound(before: &[u8], between: &[u8], name: &[u8], value: &[u8]) -> bool {
    let is_bound = before.ends_with(b":") || before.ends_with(b"[") || before.ends_with(b"(");
    let member = value.iter().rposition(|b| *b == b'.').map_or(&value[..0], |point| &value[point + 1..]);
    is_bound
        && between.ends_with(b"=\"")
        && member.eq_ignore_ascii_case(name)
        && value.iter().all(|b| b.is_ascii_alphabetic() || matches!(b, b'.' | b'_'))
}

/// `volume "db-password" : secret "shop-db" not found`: of which kind the object in the next quotes is.
fn is_kind_of_object(between: &[u8], value: &[u8], behind: &[u8]) -> bool {
    between.starts_with(b"\" : ") && value.iter().all(u8::is_ascii_lowercase) && behind.starts_with(b" \"")
}

/// `Script ticket: b3f78f20...`: the number of a job, and not that of Kerberos or a single sign-on.
fn is_ticket_of_job(before: &[u8], name: &[u8], between: &[u8], value: &[u8]) -> bool {
    let is_job = [&b"Script "[..], b"script ", b"Job ", b"job ", b"Task ", b"task "];
    is_job.iter().any(|job| before.ends_with(job))
        && name.eq_ignore_ascii_case(b"ticket")
        && between == b": "
        && value.len() == 32
        && value.iter().all(u8::is_ascii_hexdigit)
}

/// `secrets: [db_password, api_token]`: names of secrets.
fn is_name_in_list(between: &[u8], value: &[u8]) -> bool {
    let is_of_secret = words_of(value).any(|word| {
        [&b"password"[..], b"token", b"secret", b"key", b"credentials", b"pass", b"cert"]
            .iter()
            .any(|known| known.eq_ignore_ascii_case(word))
    });
    let bare = value.strip_prefix(b"[");
    let value = bare.unwrap_or(value);
    let value = value.strip_suffix(b",").unwrap_or(value);
    (between.ends_with(b"[") || bare.is_some())
        && is_of_secret
        && value.iter().any(|b| matches!(b, b'_' | b'-'))
        && value.iter().all(|b| b.is_ascii_lowercase() || matches!(b, b'_' | b'-'))
}

/// `12文字以上`, `12자`: how many letters it must have.
fn is_rule_of_letters(value: &[u8]) -> bool {
    let digits = value.iter().take_while(|b| b.is_ascii_digit()).count();
    let behind = &value[digits..];
    (1..=2).contains(&digits)
        && !behind.is_ascii()
        && !behind.iter().any(u8::is_ascii_alphanumeric)
        && ["文字", "자", "글자", "位", "个字符", "個字元", "字符"]
            .iter()
            .any(|letters| behind.starts_with(letters.as_bytes()))
}

/// `accessor x1 of the token listed`: by which Vault names a token without telling it, in 24 letters and digits.
fn is_accessor(name: &[u8], between: &[u8], value: &[u8], behind: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"accessor")
        && between == b" "
        && value.len() == 24
        && value.iter().all(u8::is_ascii_alphanumeric)
        && behind.starts_with(b" of the token")
}

/// `--secret id=npmrc,src=.npmrc`, `LoadCredential=db-password:/etc/creds/db`: where a secret is to be read from.
fn is_mount(before: &[u8], name: &[u8], between: &[u8], value: &[u8]) -> bool {
    let is_file =
        [&b"LoadCredential="[..], b"LoadCredentialEncrypted="].iter().any(|key| before.ends_with(key));
    is_file && value.starts_with(b"/")
        || before.ends_with(b"--from-file=") && between == b"="
        || before.ends_with(b"--")
            && name == b"secret"
            && matches!(between, b" " | b"=")
            && value.starts_with(b"id=")
            && value.iter().all(|b| b.is_ascii_alphanumeric() || b"=_-.,/".contains(b))
}

/// `resource "random_password" "db" {`: kind and name of something, in front of its settings.
fn is_label_of_resource(before: &[u8], between: &[u8]) -> bool {
    let head = before.iter().position(u8::is_ascii_alphabetic).map_or(&before[..0], |at| &before[at..]);
    let is_block = [&b"resource \""[..], b"data \"", b"ephemeral \"", b"module \"", b"provider \""]
        .iter()
        .any(|word| head.starts_with(word));
    is_block && !before.contains(&b'{') && between == b"\" \""
}

/// `{{resolve:secretsmanager:shop/db:SecretString:password}}`, `${{ secrets.TOKEN }}`: a step of a path that a template fills in.
fn is_path_in_template(before: &[u8], between: &[u8]) -> bool {
    let open = memchr::memmem::rfind(before, b"{{");
    let Some(inside) = open.map(|open| before[open + 2..].trim_ascii()) else { return false };
    let is_path = inside.iter().all(|b| b.is_ascii_alphanumeric() || b".:/_-".contains(b));
    is_path && (between == b"." || between == b":" && inside.contains(&b':'))
}

/// `if not password: raise ValueError`: a name that code asks about, and what it does then.
fn is_tested(before: &[u8], between: &[u8], value: &[u8]) -> bool {
    const DOES: [&[u8]; 14] = [
        b"raise",
        b"return",
        b"pass",
        b"continue",
        b"break",
        b"yield",
        b"log",
        b"logger",
        b"logging",
        b"sys",
        b"print",
        b"self",
        b"exit",
        b"abort",
    ];
    let head = before.trim_ascii_start();
    let is_asked =
        [&b"if "[..], b"elif ", b"while ", b"unless ", b"assert "].iter().any(|word| head.starts_with(word));
    let word = value.iter().take_while(|b| b.is_ascii_lowercase()).count();
    is_asked && between.starts_with(b":") && DOES.contains(&&value[..word])
}

/// `<set to the key 'password' in secret 'shop-db'>`, `<not set here>`
fn is_placeholder_of_words(value: &[u8], behind: &[u8]) -> bool {
    value
        .strip_prefix(b"<")
        .is_some_and(|word| word.len() >= 2 && word.iter().all(|b| b.is_ascii_lowercase() || *b == b'-'))
        && behind.first() == Some(&b' ')
        && behind.contains(&b'>')
}

/// `Kennwort: mindestens 8 Zeichen`: what a password must be like: a word, at once a small number, and what it counts.
fn is_rule_for_users(value: &[u8], behind: &[u8]) -> bool {
    let is_word = |word: &[u8]| word.iter().all(|b| b.is_ascii_alphabetic() || *b >= 0x80);
    let mut words = behind.strip_prefix(b" ").unwrap_or_default().split(|b| *b == b' ');
    let number = words.next().unwrap_or_default();
    let is_small = matches!(number.len(), 1..=2) && number.iter().all(u8::is_ascii_digit);
    let counted = words.next().unwrap_or_default();
    let counted = counted.strip_suffix(b".").unwrap_or(counted).trim_ascii_end();
    is_word(value) && is_small && counted.len() >= 5 && is_word(counted)
}

/// `mysql --password shop`: these programs ask for it, and the last word is a database.
fn is_database_of_client(before: &[u8], between: &[u8], value: &[u8], behind: &[u8]) -> bool {
    let asks =
        [&b"mysql"[..], b"mariadb"].iter().any(|program| memchr::memmem::find(before, program).is_some());
    asks && before.ends_with(b"--")
        && between == b" "
        && value.iter().all(|b| b.is_ascii_lowercase() || *b == b'_')
        && matches!(behind.trim_ascii().first(), None | Some(b'<' | b'>' | b'|' | b';' | b'&'))
}

/// `keys: node-e214dd38927f...`: the key of a cache, by the digest of what it was made from.
fn is_digest_behind_word(name: &[u8], value: &[u8]) -> bool {
    let is_key = name.eq_ignore_ascii_case(b"key") || name.eq_ignore_ascii_case(b"keys");
    let value = value.strip_suffix(b",").unwrap_or(value);
    let Some(dash) = value.iter().rposition(|b| *b == b'-') else { return false };
    let (words, digest) = (&value[..dash], &value[dash + 1..]);
    let is_listed = |word: &[u8]| OF_SECRETS.iter().any(|known| known.eq_ignore_ascii_case(word));
    is_key
        && matches!(digest.len(), 32 | 40 | 64)
        && digest.iter().all(u8::is_ascii_hexdigit)
        && words.len() >= 2
        && words.iter().all(|b| b.is_ascii_alphabetic() || matches!(b, b'-' | b'.'))
        && !words.split(|b| matches!(b, b'-' | b'.')).any(is_listed)
}

/// What credentials begin with that have a word in front.
const OF_SECRETS: [&[u8]; 12] =
    [b"key", b"token", b"secret", b"api", b"sk", b"pk", b"live", b"test", b"prod", b"auth", b"pat", b"pass"];
/// Words of names that say where a secret is, and do not hold one: `existingSecret`, `imagePullSecret`.
const OF_REFERENCES: [&[u8]; 12] = [
    b"existing",
    b"external",
    b"pull",
    b"certificate",
    b"certificates",
    b"cert",
    b"tls",
    b"ssl",
    b"ca",
    b"ingress",
    b"ref",
    b"mount",
];

/// `certificatesSecret: shop-tls`: the name of a secret that is kept elsewhere.
fn is_name_of_secret(name: &[u8], between: &[u8], value: &[u8]) -> bool {
    let words: Vec<&[u8]> = words_of(name).collect();
    let Some((last, first)) = words.split_last() else { return false };
    let is_reference = last.eq_ignore_ascii_case(b"secret")
        && first.iter().any(|word| OF_REFERENCES.iter().any(|known| known.eq_ignore_ascii_case(word)));
    let is_word = |word: &[u8]| {
        !word.is_empty()
            && (word.iter().all(u8::is_ascii_lowercase)
                || word.len() <= 2 && word.iter().all(u8::is_ascii_digit))
    };
    is_reference
        && between == b": "
        && value.contains(&b'-')
        && value.split(|b| *b == b'-').all(is_word)
        && value.rsplit(|b| *b == b'-').next().is_some_and(|word| KINDS_OF_SECRETS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(text: &str, name: &str, value: &str) -> bool {
        let first = text.find(name).expect("the name") + name.len();
        let at = first + text[first..].find(value).expect("the value");
        let name_at = text[..at].rfind(name).expect("the name");
        is_harmless(text.as_bytes(), &(name_at..name_at + name.len()), &(at..at + value.len()), false)
    }

    #[test]
    fn names_of_objects_jobs_and_files_are_told_from_secrets() {
        for (text, name, value, wanted) in [
            ("volume \"db-password\" : secret \"shop-db\" not found", "db-password", "secret", true),
            ("{\"db-password\": secret \"x\"", "db-password", "secret", false),
            ("\"db-password\" : hunter", "db-password", "hunter", false),
            (
                "Script ticket: b3f78f208ced237f7d6eaea14bcce169 state",
                "ticket",
                "b3f78f208ced237f7d6eaea14bcce169",
                true,
            ),
            ("ticket: b3f78f208ced237f7d6eaea14bcce169", "ticket", "b3f78f208ced237f7d6eaea14bcce169", false),
            ("ticket=b3f78f208ced237f7d6eaea14bcce169", "ticket", "b3f78f208ced237f7d6eaea14bcce169", false),
            ("ticket: ST-1856339-aA5Yuvrxzpv8Tau1", "ticket", "ST-1856339-aA5Yuvrxzpv8Tau1", false),
            ("secrets: [db_password, api_token]", "secrets", "db_password", true),
            ("secrets: [db_password, api_key]", "secrets", "[db_password,", true),
            ("secrets: [blue_tea_pot]", "secrets", "blue_tea_pot", false),
            ("up{namespace=\"shop\",secret=\"shop-db\"} 1", "secret", "shop-db", true),
            ("up{namespace=\"shop\",secret=\"Kq2x-9fKq\"} 1", "secret", "Kq2x-9fKq", false),
            ("10:11 up{namespace=\\\"shop\\\",secret=\\\"shop-db\\\"} 1", "secret", "shop-db", true),
            ("{namespace=\"shop\",secret=\"shop-db\"}", "secret", "shop-db", false),
            ("up{namespace=\"shop\",password=\"winter-2024\"} 1", "password", "winter-2024", false),
            ("  'password' => ['required', 'confirmed'],", "password", "required", true),
            ("  'password' => ['required'],", "password", "required", false),
            ("  'password' => ['required', 'min:12'],", "password", "min:12", true),
            ("  'password' => ['hunter2', 'min:12'],", "password", "min:12", false),
            ("  'password' => ['required', 'Kq7x:12m'],", "password", "Kq7x:12m", false),
            ("WITH PASSWORD :'password';", "PASSWORD", "password", true),
            ("WITH PASSWORD :'Kq7xm2'", "PASSWORD", "Kq7xm2", false),
            ("WITH PASSWORD 'password'", "PASSWORD", "password", false),
            ("gcloud secrets versions access latest --secret=db-password", "secret", "db-password", true),
            ("shopctl access latest --secret=db-password", "secret", "db-password", false),
            ("Password: leave empty to keep the old one", "Password", "leave", true),
            ("Password: leave empty to keep", "Password", "leave empty to keep", true),
            ("Password: leave2x empty", "Password", "leave2x", false),
            ("Password: leave", "Password", "leave", false),
            ("Zugangsdaten: backup / Blau77kern", "Zugangsdaten", "backup", true),
            ("Zugangsdaten: backup, Blau77kern", "Zugangsdaten", "backup", false),
            ("Password: leave river comet bronze", "Password", "leave river comet bronze", false),
            ("password: same as on db2", "password", "same", true),
            ("Passwort: siehe KeePass", "Passwort", "siehe", true),
            ("incorrect password: Permission denied, try", "password", "Permission", true),
            (
                "  [-storepass <password>]   password of the store",
                "password",
                "]   password of the store",
                true,
            ),
            ("<password>]Kq7x</password>", "password", "]Kq7x", false),
            ("Password:RequireDigit=true", "Password", "RequireDigit", true),
            ("Password:RequiredLength=12", "Password", "RequiredLength=12", true),
            ("Password:RequireDigit=horse", "Password", "RequireDigit", false),
            ("Expect-CT: pin-sha256=\"cUPcTAZW\"", "pin", "cUPcTAZW", true),
            ("pin=\"cUPcTAZW\"", "pin", "cUPcTAZW", false),
            ("create secret generic db --from-file=password=./pw.txt", "password", "./pw.txt", true),
            ("create secret generic db --from-literal=password=pw.txt", "password", "pw.txt", false),
            ("externalSecret: shop-db", "externalSecret", "shop-db", true),
            ("secrets: db_password2x", "secrets", "db_password2x", false),
            ("パスワード：12文字以上", "パスワード", "12文字以上", true),
            ("비밀번호: 12자", "비밀번호", "12자", true),
            ("パスワード：12tree", "パスワード", "12tree", false),
            ("パスワード：123文字", "パスワード", "123文字", false),
            ("パスワード：12文字Kq2x", "パスワード", "12文字Kq2x", false),
            ("LoadCredential=db-password:/etc/creds/db", "db-password", "/etc/creds/db", true),
            ("SetCredential=db-password:/etc/creds/db", "db-password", "/etc/creds/db", false),
            (
                "accessor ROJzgahcw4IT9cGThiCpvVIo of the token listed",
                "accessor",
                "ROJzgahcw4IT9cGThiCpvVIo",
                true,
            ),
            ("accessor=ROJzgahcw4IT9cGThiCpvVIo of the token", "accessor", "ROJzgahcw4IT9cGThiCpvVIo", false),
            ("accessor ROJzgahcw4IT9cGThiCpv#Io of the token", "accessor", "ROJzgahcw4IT9cGThiCpv#Io", false),
            ("password ROJzgahcw4IT9cGThiCpvVIo of the token", "password", "ROJzgahcw4IT9cGThiCpvVIo", false),
            ("build --secret id=npmrc,src=.npmrc", "secret", "id=npmrc,src=.npmrc", true),
            ("build --secret idx7npmrc", "secret", "idx7npmrc", false),
            ("build --password id=npmrc", "password", "id=npmrc", false),
        ] {
            assert_eq!(is(text, name, value), wanted, "{text}");
        }
        for (text, wanted) in [
            (":password=\"form.password\"", true),
            (":password=\"form.hunter\"", false),
            (" password=\"form.password\"", false),
        ] {
            let at = text.find('"').map_or(0, |quote| quote + 1);
            let is = is_harmless(text.as_bytes(), &(1..9), &(at..text.len() - 1), true);
            assert_eq!(is, wanted, "{text}");
        }
    }

    #[test]
    fn what_stands_around_says_that_it_is_none() {
        for (text, name, value) in [
            ("+ resource \"random_password\" \"shop_1\" {", "password", "shop_1"),
            ("x: {{resolve:secretsmanager:db:SecretString:password}}", "SecretString", "password"),
            ("  if not password: raise ValueError(x)", "password", "raise"),
            ("PW: <set to the key 'x'> y", "PW", "<set"),
            ("Kennwort: mindestens 8 Zeichen", "Kennwort", "mindestens"),
            ("mysql --user=app --password shop", "password", "shop"),
            (
                "keys: node-e214dd38927fc289cd19fa07985b53f04d5328fd,",
                "keys",
                "node-e214dd38927fc289cd19fa07985b53f04d5328fd",
            ),
            ("certificatesSecret: shop-0-tls", "certificatesSecret", "shop-0-tls"),
        ] {
            assert!(is(text, name, value), "{text}");
        }
        for (text, name, value) in [
            ("password: hunter2 for 3 days", "password", "hunter2"),
            ("if it asks, password: hunter2", "password", "hunter2"),
            ("secret: shop-0-tls", "secret", "shop-0-tls"),
            ("mysql --password=shop", "password", "shop"),
            (
                "api_key: key-e214dd38927fc289cd19fa07985b53f0",
                "api_key",
                "key-e214dd38927fc289cd19fa07985b53f0",
            ),
            ("clientSecret: blue-tea-pot", "clientSecret", "blue-tea-pot"),
            ("clientSecret: blue-tea-key", "clientSecret", "blue-tea-key"),
            ("password: hunter2x within 3 minutes", "password", "hunter2x"),
            ("login password: hunter after 3 attempts", "password", "hunter"),
            ("state {{user: bob, password: hunter2x}} done", "password", "hunter2x"),
            ("x {{password=hunter2x}} y", "password", "hunter2x"),
            ("cfg {{ password: hunter2x }}", "password", "hunter2x"),
            ("if password: hunter", "password", "hunter"),
            ("while token: abc123def456", "token", "abc123def456"),
            ("resource \"x\" \"y\" { password = \"hunter2x\" }", "password", "hunter2x"),
            ("module \"db\" password=hunter2x", "password", "hunter2x"),
            ("data \"aws\" password: hunter2x", "password", "hunter2x"),
            ("mysql --password hunter shop", "password", "hunter"),
            (
                "password: acme-e214dd38927fc289cd19fa07985b53f0",
                "password",
                "acme-e214dd38927fc289cd19fa07985b53f0",
            ),
        ] {
            assert!(!is(text, name, value), "{text}");
        }
    }
}
