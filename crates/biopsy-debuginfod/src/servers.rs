//! Addresses of servers, as `DEBUGINFOD_URLS` and the command line have them.

/// More than anybody lists.
const MOST: usize = 16;
/// Bytes of an address at most.
const LONGEST: usize = 2048;

/// Why servers cannot be asked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ServersError {
    /// It is no address of a web server.
    #[error("`{0}` is no address of a debuginfod server: it begins with https:// or http://")]
    NotWeb(String),
    /// A name and a password would go to whoever answers.
    #[error("`{0}` has a user in it, and nothing but build ids is sent to a debuginfod server")]
    HasUser(String),
    /// There are none.
    #[error("no debuginfod server is named")]
    None,
    /// There are too many.
    #[error("{0} debuginfod servers are named, {MOST} are asked at most")]
    TooMany(usize),
}

/// Addresses in the order in which they are asked, each once: words between spaces, as in `DEBUGINFOD_URLS` (debuginfod-client-config(7)).
/// Words of its other kind (`ima:enforcing`) are about signatures that this client does not check: a file is believed by its build id.
///
/// # Errors
/// One is none, or there are none.
pub fn parse_servers(list: &str) -> Result<Vec<String>, ServersError> {
    let mut servers: Vec<String> = Vec::new();
    for word in list.split_ascii_whitespace().filter(|word| !word.starts_with("ima:")) {
        let shown = || word.chars().take(200).collect::<String>();
        let rest = word.strip_prefix("https://").or_else(|| word.strip_prefix("http://"));
        let host = rest.and_then(|rest| rest.split(['/', '?', '#']).next()).unwrap_or_default();
        let is_plain = word.bytes().all(|byte| byte.is_ascii_graphic()) && !word.contains(['?', '#', '\\']);
        if host.is_empty() || !is_plain || word.len() > LONGEST {
            return Err(ServersError::NotWeb(shown()));
        }
        if host.contains('@') {
            // What stands before the @ is not repeated.
            let host = host.rsplit('@').next().unwrap_or_default();
            return Err(ServersError::HasUser(host.to_owned()));
        }
        let server = word.trim_end_matches('/').to_owned();
        if !servers.contains(&server) {
            servers.push(server);
        }
    }
    match servers.len() {
        0 => Err(ServersError::None),
        count if count > MOST => Err(ServersError::TooMany(count)),
        _ => Ok(servers),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_as_the_environment_has_them() {
        let list = "ima:enforcing https://debuginfod.example/ \t http://10.0.0.7:8002/sub/ https://debuginfod.example";
        assert_eq!(parse_servers(list).unwrap(), ["https://debuginfod.example", "http://10.0.0.7:8002/sub"]);
    }

    #[test]
    fn what_is_no_server_is_refused_and_secrets_in_it_are_not_repeated() {
        for wrong in [
            "debuginfod.example",
            "file:///srv/debug",
            "ftp://x",
            "https://",
            "https:///x",
            "https://x/?q",
            "https://ä/",
        ] {
            assert!(matches!(parse_servers(wrong), Err(ServersError::NotWeb(_))), "{wrong}");
        }
        let error = parse_servers("https://me:geheim@debuginfod.example/x").unwrap_err();
        assert!(
            matches!(error, ServersError::HasUser(_)) && !error.to_string().contains("geheim"),
            "{error}"
        );
        assert_eq!(parse_servers(" ima:ignore "), Err(ServersError::None));
        let many: String = (0..20).map(|number| format!("https://s{number}/ ")).collect();
        assert_eq!(parse_servers(&many), Err(ServersError::TooMany(20)));
    }

    proptest::proptest! {
        /// Whatever is typed, what is asked is a web server without a user.
        #[test]
        fn any_text_gives_servers_or_an_error(text in "(https?://|ima:|)[ -~äa-c/@:? ]{0,40}") {
            for server in parse_servers(&text).unwrap_or_default() {
                let host = server.split('/').nth(2).unwrap_or_default();
                proptest::prop_assert!(!host.is_empty() && !host.contains('@') && !server.contains([' ', '?', '#']));
            }
        }
    }
}
