//! A name that is only mentioned: declared, documented, passed on. What stands behind it is code or text, and no value.

use std::ops::Range;

use crate::value::Value;

/// Is the value behind `name` code or documentation?
///
/// `word` is the part of the name that says that it is a secret.
pub(crate) fn is_mentioned(text: &[u8], name: &Range<usize>, word: &Range<usize>, value: &Value) -> bool {
    let bytes = &text[value.range.clone()];
    is_documented(text, name, bytes)
        || is_branch(text, name)
        || is_member_of_code(text, name)
        || is_head_of_name(&text[name.clone()], bytes)
        || is_name_of_itself(&text[name.clone()], &text[word.clone()], bytes, value.quoted, text, name.start)
        || text[name.clone()].eq_ignore_ascii_case(b"key") && is_of_store(text, name, &value.range)
        || if value.quoted { is_in_text(text, value, bytes) } else { is_bare_code(text, name, word, value) }
}

/// `:param password: text`, `@param token the x`, `:type key: bytes`, `[x/password-hashes]: https://...`.
fn is_documented(text: &[u8], name: &Range<usize>, value: &[u8]) -> bool {
    const MARKS: [&[u8]; 9] = [
        b":param ",
        b":type ",
        b":keyword ",
        b":ivar ",
        b":var ",
        b":raises ",
        b"@param ",
        b"\\param ",
        b"@property ",
    ];
    let before = &text[name.start.saturating_sub(48)..name.start];
    let line = before.iter().rposition(|b| *b == b'\n').map_or(before, |at| &before[at + 1..]);
    let is_mark = MARKS.iter().any(|mark| line.ends_with(mark))
        || MARKS.iter().any(|mark| {
            // `:param str password: text`, `@param {string} password text`
            memchr::memmem::rfind(line, mark).is_some_and(|at| {
                let kind = &line[at + mark.len()..];
                kind.ends_with(b" ") && kind.iter().filter(|b| **b == b' ').count() == 1
            })
        });
    // The target of a link of Markdown, a role of reStructuredText.
    let is_link = text[name.end..].starts_with(b"]: ")
        && (value.starts_with(b"http") || value.starts_with(b"#") || value.starts_with(b"/"));
    let is_role = value.first() == Some(&b':')
        && value[1..].iter().position(|b| *b == b'`').is_some_and(|tick| {
            tick > 1
                && value[1..=tick].ends_with(b":")
                && value[1..tick].iter().all(|b| b.is_ascii_lowercase() || *b == b':')
        });
    let is_role_behind = value.iter().position(|b| *b == b'`').is_some_and(|tick| {
        tick > 2 && value[..tick].ends_with(b":") && value[..tick - 1].iter().all(u8::is_ascii_lowercase)
    });
    // `checksum/secret: 47d2...` of charts.
    let is_checksum = line.ends_with(b"checksum/") || line.ends_with(b"checksum.");
    is_mark || is_link || is_role || is_role_behind || is_checksum
}

/// `x ? "PASS" : "FAIL"`.
fn is_branch(text: &[u8], name: &Range<usize>) -> bool {
    let before = &text[..name.start];
    let Some(before) = before.strip_suffix(b"\"").or_else(|| before.strip_suffix(b"'")) else { return false };
    before.ends_with(b"? ") && text.get(name.end + 1..name.end + 4) == Some(b" : ")
}

/// `$passwd->shell`, `$pw->uid`, `getent passwd "$user"`.
fn is_member_of_code(text: &[u8], name: &Range<usize>) -> bool {
    let is_member = text[name.end..].starts_with(b"->")
        && text.get(name.end + 2).is_some_and(|b| b.is_ascii_alphabetic() || matches!(b, b'{' | b'_'))
        && (text[name.start] == b'$' || text[..name.start].ends_with(b"$"));
    is_member || text[..name.start].ends_with(b"getent ") || text[name.end..].starts_with(b" =~ ")
}

/// Letters of a name alone, in one case: `client_secret`, `ClientSecret` and `client-secret` are one name.
fn folded(name: &[u8]) -> Vec<u8> {
    name.iter().filter(|b| b.is_ascii_alphabetic()).map(u8::to_ascii_lowercase).collect()
}

/// Letters with what joins them into names, and at least one sign that there are several words.
fn is_compound_name(value: &[u8]) -> bool {
    let is_of_name = |b: &u8| b.is_ascii_alphabetic() || matches!(b, b'_' | b'-' | b'.' | b' ');
    let is_hump = |pair: &[u8]| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase();
    value.len() >= 6
        && value.len() <= 64
        && value.iter().all(is_of_name)
        && value[0].is_ascii_alphabetic()
        && value[value.len() - 1].is_ascii_alphabetic()
        && (value.iter().any(|b| matches!(b, b'_' | b'-' | b'.' | b' ')) || value.windows(2).any(is_hump))
}

/// `SecretAccessKey => "aws_secret_access_key"`, `auth_token = 'auth_token'`, `CHALLENGE_PASSWORD: "challengePassword"`,
/// `self.key_password = key_password`: the value is the name once more.
fn is_name_of_itself(name: &[u8], word: &[u8], value: &[u8], quoted: bool, text: &[u8], at: usize) -> bool {
    if !is_compound_name(value) {
        return false;
    }
    let last = &name[name.iter().rposition(|b| *b == b'.').map_or(0, |at| at + 1)..];
    let is_constant = last.len() > word.len() && last.iter().all(|b| b.is_ascii_uppercase() || *b == b'_');
    let (key, value_name, word) = (folded(last), folded(value), folded(word));
    if memchr::memmem::find(&value_name, &word).is_none() {
        return false;
    }
    let is_same = key == value_name
        || key.len() > word.len() && (value_name.ends_with(&key) || key.starts_with(&value_name));
    let is_arm = text[..at].ends_with(b"::")
        || is_constant && key == value_name && quoted && value.iter().any(u8::is_ascii_uppercase);
    // Names of one word (`password`) are values too often: `"password": "my_password"`.
    let is_long_word = word.len() >= 8 && word != b"password";
    // `ToPrivateKey` => `DecodePrivateKey`
    let is_other_name = is_long_word
        && quoted
        && value_name.len() > word.len()
        && value_name.ends_with(&word)
        && word.ends_with(b"key");
    (is_same && (quoted || is_long_word || key.len() > word.len()))
        || is_other_name
        || quoted && is_arm
        || quoted
            && is_long_word
            && value_name.len() > word.len()
            && name.iter().any(u8::is_ascii_uppercase)
            && text[at + name.len()..].trim_ascii_start().starts_with(b"=>")
}

/// `Win32_Security_Credentials = ["Win32_Security"]`: the value is what the name begins with.
fn is_head_of_name(name: &[u8], value: &[u8]) -> bool {
    value.len() >= 6
        && value.iter().any(|b| matches!(b, b'_' | b'.' | b'-'))
        && name.strip_prefix(value).is_some_and(|rest| matches!(rest.first(), Some(b'_' | b'.' | b'-')))
}

/// What stands in quotes and is a prompt, the name of a variable, a template or a path of code.
fn is_in_text(text: &[u8], value: &Value, bytes: &[u8]) -> bool {
    let is_letter = |b: &u8| b.is_ascii_alphabetic() || *b >= 0x80 || matches!(b, b' ' | b'\'' | b'-');
    let is_prompt = [&b": "[..], b":", b"? ", b"?"].iter().any(|end| {
        bytes.strip_suffix(*end).is_some_and(|words| {
            words.len() >= 4
                && words.iter().all(is_letter)
                && (words.contains(&b' ') || end.len() > 1 || words[0].is_ascii_uppercase())
        })
    });
    let is_path = bytes.windows(2).any(|pair| pair == b"::")
        && bytes.iter().all(|b| b.is_ascii_alphabetic() || matches!(b, b'_' | b':'));
    // `password: &'a [u8]`: no quote.
    let is_lifetime = value.range.start >= 2
        && text[value.range.start - 1] == b'\''
        && matches!(text[value.range.start - 2], b'&' | b'<' | b'+')
        && {
            let name = bytes.iter().take_while(|b| b.is_ascii_lowercase() || **b == b'_').count();
            name > 0 && name <= 12 && matches!(bytes.get(name), Some(b' ' | b'>' | b',' | b')'))
        };
    // `PASSWORD_ENV = "APP_DB_PASSWORD"`: what variables are called.
    let is_variable_name = bytes.len() >= 8
        && bytes.iter().all(|b| b.is_ascii_uppercase() || *b == b'_')
        && bytes.iter().filter(|b| **b == b'_').count() >= 1
        && [&b"PASS"[..], b"SECRET", b"TOKEN", b"KEY", b"CREDENTIAL", b"AUTH"]
            .iter()
            .any(|word| memchr::memmem::find(bytes, word).is_some());
    // `Sign.sign()`, `Win32_Security` of `Win32_Security_Credentials`
    let is_call = bytes.strip_suffix(b"()").is_some_and(|name| {
        name.len() >= 3 && name.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b':'))
    });
    is_call || is_prompt || is_path || is_lifetime || is_variable_name || is_template(bytes)
}

/// `$user:$pass`, `{self.password}`, `{curve.name!r}`, `%(user)s:%(password)s`, `#{x.y}`: nothing but places to be filled.
fn is_template(value: &[u8]) -> bool {
    if value.starts_with(b"$") {
        return value.split(|b| b":/@ ".contains(b)).all(|part| {
            part.strip_prefix(b"$").is_some_and(|name| {
                name.iter().all(|b| b.is_ascii_lowercase() || matches!(b, b'_' | b'.'))
                    && name.len() <= 32
                    && (name.len() != 1 || name[0].is_ascii_lowercase())
                    && !name.is_empty()
            })
        });
    }
    let inside = value.strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}"));
    inside.is_some_and(|inside| {
        let head =
            &inside[..inside.iter().position(|b| matches!(b, b'!' | b':' | b'[')).unwrap_or(inside.len())];
        !head.is_empty()
            && head[0].is_ascii_alphabetic()
            && head.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.'))
            && !crate::scrambled::is_scrambled(head)
    })
}

/// `cache get key=x hit=false`, `topic=orders key=x`: keys of stores, and not of locks.
fn is_of_store(text: &[u8], name: &Range<usize>, value: &Range<usize>) -> bool {
    const WORDS: [&[u8]; 10] = [
        b"cache",
        b"topic",
        b"partition",
        b"offset",
        b"bucket",
        b"redis",
        b"ttl",
        b"lock ",
        b"hit=",
        b"\"hit\"",
    ];
    let line = &text[name.start.saturating_sub(64)..name.start];
    let line = &line[line.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1)..];
    let behind = &text[value.end..text.len().min(value.end + 32)];
    let behind = &behind[..behind.iter().position(|b| *b == b'\n').unwrap_or(behind.len())];
    [line, behind].into_iter().any(|part| {
        let part = part.to_ascii_lowercase();
        WORDS.iter().any(|word| memchr::memmem::find(&part, word).is_some())
    })
}

/// Code without quotes: members, types, elements of lists, calls.
fn is_bare_code(text: &[u8], name: &Range<usize>, word: &Range<usize>, value: &Value) -> bool {
    let range = &value.range;
    let whole = &text[range.clone()];
    let bytes = whole.trim_ascii_end();
    let bytes = bytes.strip_suffix(b";").or_else(|| bytes.strip_suffix(b",")).unwrap_or(bytes);
    let bytes = bytes.strip_prefix(b"(").unwrap_or(bytes);
    let Some(first) = bytes.first() else { return false };
    let before_name = &text[..name.start];
    let next_is_sign = text[name.end..].starts_with(b" = ");
    let name = &text[name.clone()];
    let before = text[..range.start].last().copied();
    let is_spaced = before.is_some_and(|b| b.is_ascii_whitespace());
    let behind = text.get(range.end).copied();
    let next = &text[range.end..text.len().min(range.end + 6)];
    let is_of_path = |b: &u8| b.is_ascii_alphabetic() || matches!(b, b'_' | b'.');
    let is_identifier = (first.is_ascii_alphabetic() || *first == b'_') && bytes.iter().all(is_of_path);
    let ends_line = matches!(behind, None | Some(b'\n' | b'\r')) || next.starts_with(b";\n");
    let is_of_self = [&b"self."[..], b"this.", b"$this->", b"@"].iter().any(|start| name.starts_with(start));
    let is_parameter_type =
        bytes.len() <= 2 && bytes[0].is_ascii_uppercase() && bytes.iter().all(u8::is_ascii_alphanumeric);
    if is_spaced && is_parameter_type && (whole.ends_with(b",") || matches!(behind, Some(b',' | b')'))) {
        return true;
    }
    if is_identifier && bytes.len() > 1 {
        // `self.password = password`, `password=password)`, `x.key_repr = field.name`
        let same = folded(bytes);
        let key = folded(name);
        let is_same = same.len() >= 3 && (key == same || key.ends_with(&same) && name.contains(&b'.'));
        let is_argument = matches!(behind, Some(b',' | b')')) || whole.ends_with(b",");
        let is_many = bytes.contains(&b'_');
        let carries_on = bytes.contains(&b'.')
            && [
                &b"password"[..],
                b"passwd",
                b"pass",
                b"pwd",
                b"secret",
                b"token",
                b"key",
                b"credentials",
                b"auth",
            ]
            .iter()
            .any(|word| {
                bytes[bytes.iter().rposition(|b| *b == b'.').unwrap_or(0) + 1..].eq_ignore_ascii_case(word)
            });
        let is_member = is_spaced
            && name.contains(&b'.')
            && bytes.contains(&b'.')
            && bytes.iter().all(|b| b.is_ascii_lowercase() || matches!(b, b'.' | b'_'));
        let goes_on = [&b" or "[..], b" and ", b" if ", b" else "].iter().any(|sign| next.starts_with(sign));
        // `username, password = found`
        let is_of_tuple = is_spaced
            && ends_line
            && before_name.ends_with(b", ")
            && next_is_sign
            && bytes.iter().all(|b| b.is_ascii_lowercase() || *b == b'_');
        // `password = random_password.db.result`
        let is_long_path = is_spaced && bytes.iter().filter(|b| **b == b'.').count() >= 2;
        if is_of_self && is_spaced
            || is_long_path
            || is_of_tuple
            || is_same && (is_argument || is_spaced && is_many)
            || carries_on && (is_argument || ends_line || goes_on || is_spaced)
            || is_member
            || is_spaced
                && is_many
                && is_argument
                && memchr::memmem::find(&same, &folded(&text[word.clone()])).is_some()
        {
            return true;
        }
        // Constants and types of a declaration: `key: PRIVATE_KEY_TYPES,`, `signing_key: AzureAccessKey,`.
        let humps = bytes
            .windows(2)
            .filter(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
            .count();
        let is_constant = is_many && bytes.iter().all(|b| b.is_ascii_uppercase() || *b == b'_');
        let is_type =
            first.is_ascii_uppercase() && (humps >= 1 && !name[0].is_ascii_uppercase() || bytes.len() <= 2);
        if is_spaced && (is_argument || ends_line && whole.ends_with(b",")) && (is_constant || is_type) {
            return true;
        }
        if is_spaced && matches!(bytes, b"impl" | b"dyn" | b"typing.Union" | b"Optional") {
            return true;
        }
    }
    // `credentials[1]`, `$opt{password}`, `vec![0`, `format!("..."`, `&derived[0..n]`, `str):`, `$p`, `$!`, `a:2`
    let head = bytes.iter().take_while(|b| is_of_path(b) || **b == b'$' || **b == b'&').count();
    let rest = &bytes[head..];
    // `t(e.key)`, `e.password||""` of code that was made small.
    let is_call = rest.first() == Some(&b'(')
        && head > 0
        && rest[1..]
            .iter()
            .position(|b| *b == b')')
            .is_some_and(|close| rest[1..=close].iter().all(is_of_path))
        && rest.iter().all(|b| is_of_path(b) || b"(),;}\"'".contains(b));
    let is_default = head > 2 && bytes[..head].contains(&b'.') && rest.starts_with(b"|");
    if is_call || is_default {
        return true;
    }
    let is_element = head > 1
        && rest.first() == Some(&b'[')
        && rest[1..].iter().rposition(|b| *b == b']').is_none_or(|end| end + 2 == rest.len())
        && rest[1..].iter().all(|b| b.is_ascii_alphanumeric() || b"_.:]*+-'\"".contains(b));
    let is_of_hash = bytes[0] == b'$'
        && head > 1
        && rest.first() == Some(&b'{')
        && rest
            .strip_suffix(b"}")
            .is_some_and(|inside| inside[1..].iter().all(|b| b.is_ascii_alphabetic() || *b == b'_'));
    let is_macro =
        head > 1 && (rest.starts_with(b"![") || rest.starts_with(b"!(") || rest.starts_with(b"::"));
    let is_perl = is_spaced
        && (bytes == b"$!"
            || bytes[0] == b'$' && bytes.len() == 2 && bytes[1].is_ascii_lowercase()
            || bytes.len() >= 3 && is_template(bytes) && bytes[0] == b'$');
    let is_typed = is_spaced
        && head > 2
        && bytes[..head].iter().all(u8::is_ascii_lowercase)
        && [&b"):"[..], b"]):", b") ->"].contains(&rest);
    let is_parameter =
        bytes.len() == 3 && bytes[1] == b':' && bytes[2].is_ascii_digit() && bytes[0].is_ascii_lowercase();
    is_element
        || is_of_hash
        || is_macro
        || is_perl
        || is_typed
        || is_parameter
        || is_template(bytes) && *first == b'{'
}

#[cfg(test)]
mod tests {
    use crate::{BundleKey, Options, Redactor};

    #[test]
    fn names_that_are_mentioned_have_no_values() {
        let redactor = Redactor::new(Options::default()).expect("the built-in packs are right");
        let mut changed = Vec::new();
        for line in [
            "        :param password: Unicode password.",
            "        :type passphrase: :py:data:`bytes`",
            "  * @param {string} password the text",
            "    Pass :meth:`peek` a default value to return that",
            "[RustCrypto/password-hashes]: https://github.com/RustCrypto/password-hashes",
            "    my $out = $as->{pass} ? \"PASS\" : \"FAIL\";",
            " if ( $pw->uid == 1 && $pw->dir =~ m#^/x# ) {",
            "names.  Thus, C<< $passwd_obj->shell >> corresponds to $pw_shell",
            "        passwd=$(getent passwd \"$user\")",
            "        self.key_password = key_password",
            "        self._passphrase_userdata = userdata",
            "                 password=password,",
            "            issue_new_refresh_tokens=issue_new_refresh_tokens,",
            "         username, password = url_user_password",
            "    child_node.key_repr = field.name",
            "         proxy_pass=url.password or None,",
            "    auth = dict(Email=credentials[0], Passwd=credentials[1], service=service)",
            "   $self->callback(pass => $opt{password}) if exists $opt{password};",
            "     my $userpass = \"$user:$pass\";",
            "  return f'machine {hostname}{path} login {self.username} password {self.password}'",
            "    f\"Unsupported curve for ssh private key: {curve.name!r}\"",
            "         private_key: CERTIFICATE_PRIVATE_KEY_TYPES,",
            "     signing_key: AzureAccessKey,",
            "         password: U,",
            "         password: impl AsRef<[u8]>,",
            "     pub private_key: &'a [u8],",
            "                resource_owner_secret: str):",
            "    refresh_token_key = 'refresh_token'",
            "             Self::SecretAccessKey => \"aws_secret_access_key\",",
            "             Self::RsaPrivateKey => b\"RSA PRIVATE KEY\",",
            "     AttributeOID.CHALLENGE_PASSWORD: \"challengePassword\",",
            " const SECRET_ENV_KEY: &str = \"IDENTITY_KEY\";",
            "         password = ask_password(\"Password: \")",
            "         let mut pwd_verification_value = vec![0; PWD_VERIFY_LENGTH];",
            "         let decrypt_key = &derived_key[0..key_length];",
            "             $password = $p;",
            "   let s:netrw_passwd = a:2",
            "        --username and --password options instead of via the URL.",
            "var stopwords = [\"a\", \"and\", \"are\", \"as\", \"at\"]",
            "     MovedAttribute(\"HTTPPasswordMgr\", \"urllib2\", \"urllib.request\"),",
            "     proxy_url=\"socks5h://<username>:<password>@proxy-host\"",
            "         password = \":****\"",
            "    headers[\"Proxy-Authorization\"] = _basic_auth_str(username, password)",
            "  $self->_add_basic_auth_header( $request, 'proxy-authorization' => $p_auth );",
            "   my $header = $mode eq 'proxy' ? 'Proxy-Authorization' : 'Authorization';",
            "     [\"host\", \"authorization\", \"content-length\", \"user-agent\"];",
            " use windows_sys::Win32::Security::Authorization::{GetNamedSecurityInfoW, SE_FILE_OBJECT};",
            " let mut client = AddAuthorization::basic(svc, \"foo\", \"bar\");",
            " _SK_START = b\"-----BEGIN OPENSSH PRIVATE KEY-----\"\n_SK_END = b\"-----END OPENSSH PRIVATE KEY-----\"",
            "     Generator(out, policy=serialization_policy).flatten(pkg_info)",
            "  'Test2::Event::Pass'    => '1.302103',",
            "  \"password\": \"Password\",",
            "  \"password\": \"Contraseña\",",
            "  \"enterPassword\": \"Please enter your password\",",
            "  \"passwordTooShort\": \"The password must have at least {0} characters\",",
            "password=Passwort",
            "login.password=Password:",
            "<string name=\"prompt_password\">Password (optional)</string>",
            "<data name=\"Password\" xml:space=\"preserve\"><value>Kennwort</value></data>",
            "         password: {type: string, format: password}",
            "  string password = 3;",
            "    'password' => 'required|min:8|confirmed',",
            "    password: <%= ENV['DB_PASSWORD'] %>",
            "    password: !vault |",
            "    password: ${DB_PASSWORD:?not set}",
            "  password = random_password.db.result",
            "pwdLastSet: 133456789012345678",
            ".BR \\-\\-password = \\fIpassword\\fR",
            "curl -u user:password https://example.com",
            "  annotations: {checksum/secret: 47d2989623fc4b23fdd0916739f1d3572db0c006cbca9d5b35db0099793f8c00}",
            "10:00:01 cache get key=GZSOpcWUvUxEYROZf3RgnS1N hit=false",
            "var r={token:n.token,secret:t(e.key)};e.password=e.password||\"\"",
            "password: 3 failures, token: 4 failures",
            "password:  16 bytes",
            "random_password.db: Creation complete after 0s [id=none]",
            "Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==",
            "Event: SID=S-1-5-21-3623811015-3361044348-30300820-1013 logged on",
            "debug1: Server host key: ssh-ed25519 SHA256:uNiVztksCsDhcc0u9e8BrzP3zDlZ0Tz1zQ1wUuZyJZk",
            "GET /thumb?key=photos/2026/11/IMG_20261103_120301.jpg&w=200 200",
            "Password hash: bcrypt cost=12 took 230 ms",
            "gpg-agent: no pinentry; passphrase: timeout after 60 s",
        ] {
            let redactor = redactor.for_bundle(BundleKey::from_bytes([1; 32]));
            let masked = redactor.text(line).text;
            changed.extend((masked != line).then(|| masked.into_owned()));
        }
        assert_eq!(changed, Vec::<String>::new());
    }

    #[test]
    fn values_that_look_a_little_like_code_are_masked() {
        let redactor = Redactor::new(Options::default()).expect("the built-in packs are right");
        for (line, secret) in [
            ("mysql_password: password", "password"),
            ("DB_PASSWORD=db_pass_9", "db_pass_9"),
            ("password = Katzen.klo", "Katzen.klo"),
            ("self.password = 'Blau77kern'", "Blau77kern"),
            ("auth_token = 'authTok9kern77'", "authTok9kern77"),
            ("(user=bob, password=Blaukern)", "Blaukern"),
            ("{\"password\": \"my_password\"}", "my_password"),
            ("{\"password\": \"Swordfish\"}", "Swordfish"),
            ("{\"passphrase\": \"correct horse battery staple\"}", "horse"),
            ("password: 4711", "4711"),
            ("password: $ecr3t", "$ecr3t"),
        ] {
            let redactor = redactor.for_bundle(BundleKey::from_bytes([1; 32]));
            let masked = redactor.text(line).text;
            let rest = masked.replace("redacted:password", "");
            assert!(!rest[line.find(['=', ':']).unwrap_or(0)..].contains(secret), "{line}: {masked}");
        }
    }
}
