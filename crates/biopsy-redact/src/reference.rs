//! Names that stand for a value that is kept elsewhere: what templates, shells, builds and stores of secrets fill in.

use crate::called::is_number;
use crate::phrase;
use crate::scrambled::{is_no_name, is_scrambled};
use crate::words::words_of;

/// `${NAME}`, `$(NAME)`, `#{Name}`, `{{ name }}`, `{name}`, `<name>`, `[HIDDEN]`, `%NAME%`, `%s`, `$NAME`, `$env:NAME`,
/// `@name` and the like.
pub(crate) fn is_reference(value: &[u8]) -> bool {
    if value.len() > 128 {
        return false;
    }
    let inner = |start: &[u8], end: &[u8]| -> Option<&[u8]> { value.strip_prefix(start)?.strip_suffix(end) };
    let name_like = |name: &[u8]| {
        name.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b' ' | b':' | b'[' | b']' | b'/'))
            // `${NAME:-value}` carries a value of its own.
            && !name.windows(2).rev().skip(1).any(|pair| pair == b":-" || pair == b":=")
    };
    let words_only = |name: &[u8]| {
        name.iter().all(|b| b.is_ascii_alphabetic() || matches!(b, b'_' | b'-' | b' ' | b'.' | b':'))
    };
    // `${NAME:?not set}`, `<%= ENV['X'] %>`, `S-1-5-21-...`, `\fIname\fR` of a manual's source.
    let is_of_template = value.starts_with(b"<%")
        || value.starts_with(b"${{")
        || is_of_conversions(value)
        || has_message(value)
        || is_expression(value)
        || value.starts_with(b"S-1-") && value[4..].iter().all(|b| b.is_ascii_digit() || *b == b'-')
        || [&b"\\fI"[..], b"\\fB", b"\\fR", b"\\fP"].iter().any(|font| value.starts_with(font));
    // `!vault |`, `!Ref X`, `!secret x` of YAML.
    let is_tag = [
        &b"!vault"[..],
        b"!Ref",
        b"!Sub",
        b"!GetAtt",
        b"!ImportValue",
        b"!Join",
        b"!secret",
        b"!reference",
        b"!ENV",
        b"!env",
        b"!include",
    ]
    .iter()
    .any(|tag| value.strip_prefix(*tag).is_some_and(|rest| rest.first().is_none_or(|b| *b == b' ')));
    if is_of_template || is_tag || is_tag_of_store(value) || is_of_store(value) {
        return true;
    }
    // `[% name %]` of the Template Toolkit and `$[ name ]` of pipelines, up to its first blank.
    if [&b"[%"[..], b"$["]
        .iter()
        .any(|open| value.strip_prefix(*open).is_some_and(|rest| matches!(rest, [] | [b' ', ..])))
    {
        return true;
    }
    let wrapped: [(&[u8], &[u8]); 10] = [
        (b"<<", b">>"),
        (b"%%", b"%%"),
        (b"${", b"}"),
        (b"$(", b")"),
        (b"#{", b"}"),
        (b"{{", b"}}"),
        (b"%(", b")s"),
        (b"@@", b"@@"),
        (b"%{", b"}"),
        (b"$[", b"]"),
    ];
    if wrapped.iter().any(|(start, end)| inner(start, end).is_some_and(name_like)) {
        return true;
    }
    // `$(openssl rand 24)`, `$(cat file)`: what a command says.
    let is_command = |name: &[u8]| name.iter().all(|b| b.is_ascii_lowercase() || matches!(b, b'-' | b'_'));
    // `$$(openssl` of a build, up to its first blank; `$$(x9` may be the beginning of a password.
    let escaped = value
        .strip_prefix(b"$$(")
        .map(|name| name.split(|b| matches!(b, b' ' | b')')).next().unwrap_or_default());
    let command = escaped.filter(|name| is_command(name)).or_else(|| value.strip_prefix(b"$("));
    // `${file("x")}` calls something; `${NAME` alone may be the beginning of a password.
    let called = value
        .strip_prefix(b"${")
        .map(|inside| &inside[inside.iter().take_while(|b| b.is_ascii_lowercase()).count()..]);
    if called.is_some_and(|rest| rest.starts_with(b"(\"") || rest == b"(") {
        return true;
    }
    if command.is_some_and(|name| name.first().is_some_and(u8::is_ascii_lowercase)) {
        return true;
    }
    let bracketed: [(&[u8], &[u8]); 4] = [(b"<", b">"), (b"[", b"]"), (b"{", b"}"), (b"(", b")")];
    if bracketed.iter().any(|(start, end)| {
        inner(start, end).is_some_and(|name| {
            // `[scarlet falcon anchor forever]` of a form is what was typed.
            let is_typed = matches!(start.first(), Some(b'[')) && phrase::is_spoken_phrase(name);
            words_only(name) && !is_scrambled(name) && !is_no_name(name) && !is_typed || is_number(name)
        })
    }) {
        return true;
    }
    if inner(b"%", b"%").is_some_and(|name| !name.is_empty() && words_only(name)) {
        return true;
    }
    if matches!(
        value,
        b"%s"
            | b"%d"
            | b"%v"
            | b"%q"
            | b"%p"
            | b"?"
            | b"%@"
            | b"{}"
            | b"[]"
            | b"{"
            | b"["
            | b"("
            | b"|"
            | b">"
    ) {
        return true;
    }
    let upper_name = |name: &[u8]| {
        name.len() > 1
            && name[0].is_ascii_alphabetic()
            && name.iter().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || *b == b'_')
    };
    value.strip_prefix(b"$").is_some_and(|name| upper_name(name) || is_number(name))
        || value.strip_prefix(b":").is_some_and(is_number)
        || value.strip_prefix(b"@p").is_some_and(is_number)
        // `@__password_0` of Entity Framework
        || value.strip_prefix(b"@__").is_some_and(|name| {
            name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
                && name.iter().rposition(|b| *b == b'_').is_some_and(|last| is_number(&name[last + 1..]))
        })
        || value.strip_prefix(b"$env:").is_some_and(name_like)
        || inner(b"@", b"@").is_some_and(|name| upper_name(name) || is_dotted(name))
        // `#{Db.Password}#`, which a release fills in
        || inner(b"#{", b"}#").is_some_and(name_like)
        || value.strip_prefix(b"env:").is_some_and(upper_name)
        || is_field_of_store(value)
        // `__DB_PASSWORD__`, which a pipeline fills in
        || inner(b"__", b"__").is_some_and(|name| upper_name(name) && name.contains(&b'_'))
        || (value.len() > 2
            && matches!(value[0], b'@' | b':')
            && value[1..].iter().all(|b| b.is_ascii_alphabetic() || *b == b'_')
            // `@AWjIjzzWMMn` begins with a sign as a password may.
            && !(is_no_name(&value[1..]) || is_scrambled(&value[1..])))
}

/// `${NAME:?not set}`, `${NAME?not set}`: the name, and what is said where it has no value; also up to its first blank.
fn has_message(value: &[u8]) -> bool {
    let Some(inside) = value.strip_prefix(b"${") else { return false };
    let name = inside.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
    let behind = &inside[name..];
    name > 0 && behind.strip_prefix(b":").unwrap_or(behind).starts_with(b"?")
}

/// `mail.password`: words with points between them, as settings are called.
fn is_dotted(name: &[u8]) -> bool {
    name.contains(&b'.') && name.iter().all(|b| b.is_ascii_lowercase() || matches!(b, b'.' | b'_'))
}

/// What fields of stores are called, and names end in.
const OF_SECRETS: [&[u8]; 5] = [b"key", b"password", b"token", b"secret", b"credentials"];

/// `kv/ci/gitlab#token`: the path of an entry, and the name of one of its fields.
fn is_field_of_store(value: &[u8]) -> bool {
    let Some(sign) = memchr::memchr(b'#', value) else { return false };
    let (path, field) = (&value[..sign], &value[sign + 1..]);
    let is_word = |word: &[u8]| {
        !word.is_empty() && word.iter().all(|b| b.is_ascii_lowercase() || matches!(b, b'-' | b'_'))
    };
    path.contains(&b'/')
        && path.split(|b| *b == b'/').all(is_word)
        && is_word(field)
        && words_of(field).last().is_some_and(|word| OF_SECRETS.contains(&word))
}

/// `{{ lookup('env', 'X') }}` of Jinja and no more than this call, `<path:secret/data/shop#password>` of a plugin,
/// `%kernel.project_dir%/x` of a framework, `%1` of a batch file, `$OctopusApiKey` of a shell.
fn is_expression(value: &[u8]) -> bool {
    let inner = |start: &[u8], end: &[u8]| -> Option<&[u8]> { value.strip_prefix(start)?.strip_suffix(end) };
    let directory = value.strip_prefix(b"%").and_then(|rest| rest.split(|b| *b == b'%').next());
    let is_in_directory =
        directory.is_some_and(|name| is_dotted(name) && value[name.len() + 1..].starts_with(b"%/"));
    let variable = value.strip_prefix(b"$").filter(|name| name.iter().all(u8::is_ascii_alphabetic));
    let is_called_so = |word: &[u8]| OF_SECRETS.iter().any(|known| known.eq_ignore_ascii_case(word));
    let is_call = |inside: &[u8]| {
        inside.starts_with(b"lookup(")
            && inside.ends_with(b")")
            && inside.iter().filter(|b| **b == b'(').count() == 1
            && memchr::memmem::find(inside, b"default").is_none()
    };
    inner(b"{{ ", b" }}").is_some_and(is_call)
        || inner(b"<path:", b">").is_some_and(|path| path.contains(&b'/') && path.contains(&b'#'))
        || is_in_directory
        || value.strip_prefix(b"%").is_some_and(|number| number.len() == 1 && is_number(number))
        || variable.is_some_and(|name| {
            let words: Vec<&[u8]> = words_of(name).collect();
            words.len() >= 2 && words.last().is_some_and(|word| is_called_so(word))
        })
}

/// `!vault-ref shop/db`, `!env-var X`: a tag of YAML, of words that say that the value is kept elsewhere.
fn is_tag_of_store(value: &[u8]) -> bool {
    const KEPT: [&[u8]; 14] = [
        b"vault", b"ref", b"env", b"secret", b"ssm", b"store", b"lookup", b"import", b"param", b"sops",
        b"var", b"file", b"path", b"key",
    ];
    let Some(tag) = value.strip_prefix(b"!") else { return false };
    let tag = &tag[..tag.iter().position(|b| *b == b' ').unwrap_or(tag.len())];
    let mut words = tag.split(|b| matches!(b, b'-' | b'_' | b':' | b'/'));
    words.clone().count() >= 2 && words.all(|word| KEPT.contains(&word))
}

/// `op://vault/db/password`, `vault:secret/db#password`, `@Microsoft.KeyVault(...)`: where the value is kept.
fn is_of_store(value: &[u8]) -> bool {
    const SCHEMES: [&[u8]; 22] = [
        b"op",
        b"vault",
        b"aws-sm",
        b"awssm",
        b"aws-ssm",
        b"ssm",
        b"sm",
        b"gcp-sm",
        b"gcpsm",
        b"gsm",
        b"keyvault",
        b"akv",
        b"azkv",
        b"keyring",
        b"keychain",
        b"file",
        b"env",
        b"secret",
        b"secrets",
        b"doppler",
        b"infisical",
        b"bws",
    ];
    let scheme = memchr::memmem::find(value, b"://").map(|end| &value[..end]);
    // `ref+awssecrets://` of vals: whatever the store is called.
    let is_ref = scheme
        .and_then(|scheme| scheme.strip_prefix(b"ref+"))
        .is_some_and(|store| !store.is_empty() && store.iter().all(u8::is_ascii_alphanumeric));
    let is_path = |rest: &[u8]| {
        rest.contains(&b'/')
            && rest.iter().all(|b| b.is_ascii_alphanumeric() || b"/_-.#:".contains(b))
            && !is_scrambled(rest)
    };
    is_ref
        || scheme.is_some_and(|scheme| SCHEMES.iter().any(|known| known.eq_ignore_ascii_case(scheme)))
        || [&b"@Microsoft.KeyVault("[..], b"{{resolve:", b"arn:aws", b"%env("]
            .iter()
            .any(|start| value.starts_with(start))
        || [&b"vault:"[..], b"ssm:", b"secretsmanager:", b"projects/"]
            .iter()
            .any(|start| value.strip_prefix(*start).is_some_and(is_path))
}

/// `%s%s`, and `s%s%s` behind the sign of the first: nothing but places that `printf` fills.
fn is_of_conversions(value: &[u8]) -> bool {
    let inside = value.strip_prefix(b"%").unwrap_or(value);
    inside.contains(&b'%')
        && inside
            .split(|b| *b == b'%')
            .all(|part| matches!(part, [b's' | b'd' | b'i' | b'u' | b'x' | b'p' | b'v' | b'q']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_filled_in_later_is_a_reference() {
        for text in [
            "${DB_PASSWORD}",
            "${DB_PASSWORD:?it is not set}",
            "$(cat /run/secrets/db)",
            "$(DB_PASSWORD)",
            "$$(openssl",
            "#{Octopus.Action.Password}",
            "{{ vault.password }}",
            "${{ secrets.TOKEN }}",
            "%(password)s",
            "%DB_PASSWORD%",
            "%s",
            "%s%s",
            "@@TOKEN@@",
            "$DB_PASSWORD",
            "$env:TOKEN",
            "$1",
            ":2",
            "@password",
            "@p12",
            "@__password_0",
            ":password",
            "@TOKEN@",
            "__DB_PASSWORD__",
            "<password>",
            "[FILTERED]",
            "(none)",
            "[3]",
            "<%= ENV['X'] %>",
            "S-1-5-21-1-2-3",
            "\\fIpassword\\fR",
            "!Ref DbPassword",
            "!vault |",
            "!vault-ref shop/db",
            "!env-var",
            "op://vault/db/password",
            "ref+vault://shop/db",
            "vault:secret/db#password",
            "@Microsoft.KeyVault(SecretUri=x)",
            "{{resolve:ssm:x}}",
            "arn:aws:secretsmanager:eu-west-1:1:secret:db",
            "$[ variables.dbPassword ]",
            "$[",
            "@mail.password@",
            "#{Db.Password}#",
            "env:DB_PASSWORD",
            "ref+awssecrets://shop/db",
            "kv/ci/gitlab#token",
        ] {
            assert!(is_reference(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn what_only_begins_like_one_is_a_value() {
        for text in [
            "${Kq7x",
            "$(Kq7x#m2",
            "$$(x9",
            "$kq7xm2pz",
            "${NAME:-Kq7xm2pz}",
            "%Kq7xm2%",
            "@Kq7xm2pz",
            "@pK7",
            "@__Kq7xm2pz",
            "@AWjIjzzWMMn",
            ":AWjIjzzWMMn",
            "!vault-kq7xm2",
            "!river-7kq",
            "!vault",
            "!Kq7xm2pz",
            "[scarlet falcon anchor forever]",
            "[xKqvMZpwTj]",
            "<Kq7xm2pz>",
            "__Kq7xm2pz__",
            "__password__",
            "S-1-Kq7xm2",
            "https://vault/db",
            "vault:Kq7xm2pzWq",
            "s%s%x9",
            "Kq7xm2pz",
            "$[Kq7xm2pz",
            "@Mail.Kq7x@",
            "#{Kq7xm#2pz}#",
            "env:Kq7xm2pz",
            "ref+Kq7x",
            "kv/ci/gitlab#Kq7xm2pz",
            "river#token",
        ] {
            // `!vault` alone is a tag of Ansible.
            let wanted = text == "!vault";
            assert_eq!(is_reference(text.as_bytes()), wanted, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_has_a_random_run_is_none(run in "[A-Za-z]{3}[0-9][A-Z][a-z][0-9][A-Za-z0-9]{8,20}", front in "[!@$:<({%]?") {
            let value = format!("{front}{run}");
            proptest::prop_assert!(!is_reference(value.as_bytes()), "{}", value);
        }

        #[test]
        fn any_bytes_are_taken(value in proptest::collection::vec(proptest::num::u8::ANY, 0..160)) {
            is_reference(&value);
        }
    }
}
