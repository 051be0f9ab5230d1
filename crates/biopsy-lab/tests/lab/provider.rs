//! Logging in at a provider: an honest one, and those that are not.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use biopsy_lab::people::provider::{Provider, Settings};
use biopsy_lab::people::{self, Role};
use biopsy_lab::place::now;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::pages::{Browser, Page, entered};
use crate::support::Running;

const BACK: &str = "https://lab.example/login/provider/back";

/// A provider on loopback that lets everybody in, as whom the test says.
struct Vouching {
    address: SocketAddr,
    inside: Arc<Mutex<Inside>>,
}

/// What a provider that lies does to a token.
type Spoil = fn(String, &EcdsaKeyPair) -> String;

/// How it behaves.
struct Inside {
    key: EcdsaKeyPair,
    /// Codes that were given out: challenge and nonce.
    codes: BTreeMap<String, (String, String)>,
    /// Who logs in next.
    claims: Value,
    /// What is put over header and claims: `null` takes away.
    header_put: Value,
    claims_put: Value,
    /// What becomes of the token.
    spoil: Spoil,
    /// What it calls itself.
    issuer: Option<String>,
    exchanges: usize,
    /// What it calls the key that it publishes.
    kid: String,
    /// What it signs with, where that is another one.
    signs_with: Option<EcdsaKeyPair>,
    /// It does not say which keys it has.
    keeps_keys_back: bool,
    /// How often it was asked for them.
    asked_for_keys: usize,
}

fn key() -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let kept = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, kept.as_ref(), &random).unwrap()
}

fn signed(key: &EcdsaKeyPair, header: &Value, claims: &Value) -> String {
    let text = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", text(header), text(claims));
    let signature = key.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
}

fn put(over: &mut Value, what: &Value) {
    for (name, value) in what.as_object().unwrap() {
        match value {
            Value::Null => {
                over.as_object_mut().unwrap().remove(name);
            }
            value => over[name] = value.clone(),
        }
    }
}

/// Fields of a form or of what is behind `?`.
fn fields(text: &str) -> BTreeMap<String, String> {
    let plain = |text: &str| {
        let (mut bytes, mut rest) = (Vec::new(), text.bytes());
        while let Some(byte) = rest.next() {
            let mut digit = || char::from(rest.next().unwrap()).to_digit(16).unwrap();
            bytes.push(if byte == b'%' { u8::try_from(digit() * 16 + digit()).unwrap() } else { byte });
        }
        String::from_utf8(bytes).unwrap()
    };
    text.split('&')
        .filter_map(|one| one.split_once('='))
        .map(|(name, value)| (plain(name), plain(value)))
        .collect()
}

impl Vouching {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let inside = Inside {
            key: key(),
            codes: BTreeMap::new(),
            claims: json!({ "sub": "0001", "preferred_username": "ada", "groups": ["staff", "support-leads"] }),
            header_put: json!({}),
            claims_put: json!({}),
            spoil: |token, _| token,
            issuer: None,
            exchanges: 0,
            kid: "1".to_owned(),
            signs_with: None,
            keeps_keys_back: false,
            asked_for_keys: 0,
        };
        let inside = Arc::new(Mutex::new(inside));
        let serving = Arc::clone(&inside);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                answer(stream.unwrap(), address, &mut serving.lock().unwrap());
            }
        });
        Self { address, inside }
    }

    fn provider(&self) -> Provider {
        provider(&format!("http://{}", self.address))
    }

    /// What its own page would do once somebody has typed his password there: gives where it leads.
    fn let_in(&self, to: &str) -> BTreeMap<String, String> {
        let (place, query) = to.split_once('?').unwrap();
        assert_eq!(place, format!("http://{}/authorize", self.address));
        let asked = fields(query);
        for (name, value) in [
            ("response_type", "code"),
            ("client_id", "the lab"),
            ("redirect_uri", BACK),
            ("code_challenge_method", "S256"),
            ("scope", "openid profile groups"),
        ] {
            assert_eq!(asked[name], value, "{name}");
        }
        let mut inside = self.inside.lock().unwrap();
        let code = format!("code {}", biopsy_deliver::encode(biopsy_deliver::random::<6>()));
        inside.codes.insert(code.clone(), (asked["code_challenge"].clone(), asked["nonce"].clone()));
        BTreeMap::from([("code".to_owned(), code), ("state".to_owned(), asked["state"].clone())])
    }

    fn set(&self, change: impl FnOnce(&mut Inside)) {
        change(&mut self.inside.lock().unwrap());
    }

    /// Takes another key, and publishes that one alone; gives the old one.
    fn change_key(&self, kid: &str) -> EcdsaKeyPair {
        let mut inside = self.inside.lock().unwrap();
        inside.kid = kid.to_owned();
        std::mem::replace(&mut inside.key, key())
    }

    fn asked_for_keys(&self) -> usize {
        self.inside.lock().unwrap().asked_for_keys
    }

    fn exchanges(&self) -> usize {
        self.inside.lock().unwrap().exchanges
    }
}

fn provider(issuer: &str) -> Provider {
    let settings = Settings {
        issuer: issuer.to_owned(),
        client: "the lab".to_owned(),
        secret: Some("se:cret".to_owned().into()),
        address: "https://lab.example/".to_owned(),
        claim: "groups".to_owned(),
        scopes: vec!["groups".to_owned()],
        roles: vec![
            ("support-leads".to_owned(), Role::Lead),
            ("support".to_owned(), Role::Analyst),
            ("it".to_owned(), Role::Administrator),
        ],
        name: "Example <Login>".to_owned(),
    };
    Provider::new(settings).unwrap()
}

/// One call to the provider.
fn answer(mut stream: TcpStream, address: SocketAddr, inside: &mut Inside) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut head, mut length, mut authorization) = (String::new(), 0, String::new());
    reader.read_line(&mut head).unwrap();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap() == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':') {
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().unwrap(),
                "authorization" => authorization = value.trim().to_owned(),
                _ => {}
            }
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let own = format!("http://{address}");
    let path = head.split(' ').nth(1).unwrap_or_default();
    let (status, said) = match path {
        "/.well-known/openid-configuration" => {
            let issuer = inside.issuer.clone().unwrap_or_else(|| own.clone());
            let said = json!({ "issuer": issuer, "authorization_endpoint": format!("{own}/authorize"),
                "token_endpoint": format!("{own}/token"), "jwks_uri": format!("{own}/keys"),
                "end_session_endpoint": format!("{own}/end") });
            (200, said)
        }
        "/keys" => {
            inside.asked_for_keys += 1;
            let point = inside.key.public_key().as_ref();
            let part = |at: usize| URL_SAFE_NO_PAD.encode(&point[at..at + 32]);
            let other = json!({ "kty": "AKP", "alg": "ML-DSA-44", "pub": "x", "kid": 7 });
            let own = json!({ "kty": "EC", "crv": "P-256", "kid": inside.kid, "use": "sig", "x": part(1), "y": part(33) });
            (if inside.keeps_keys_back { 503 } else { 200 }, json!({ "keys": [other, own] }))
        }
        "/token" => exchange(inside, &own, &authorization, &String::from_utf8(body).unwrap()),
        _ => (404, json!({})),
    };
    let said = said.to_string();
    let _ = write!(
        stream,
        "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{said}",
        said.len()
    );
}

fn exchange(inside: &mut Inside, own: &str, authorization: &str, body: &str) -> (u16, Value) {
    inside.exchanges += 1;
    let sent = fields(body);
    let client = STANDARD.encode("the%20lab:se%3Acret");
    let code = inside.codes.remove(sent.get("code").map(String::as_str).unwrap_or_default());
    let verifier = sent.get("code_verifier").map(String::as_str).unwrap_or_default();
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
    let is_right = authorization == format!("Basic {client}")
        && sent["grant_type"] == "authorization_code"
        && sent["redirect_uri"] == BACK
        && code.as_ref().is_some_and(|(wanted, _)| *wanted == challenge);
    let Some((_, nonce)) = code.filter(|_| is_right) else {
        return (400, json!({ "error": "invalid_grant" }));
    };
    let mut claims =
        json!({ "iss": own, "aud": "the lab", "exp": now() + 300, "iat": now(), "nonce": nonce });
    put(&mut claims, &inside.claims);
    put(&mut claims, &inside.claims_put);
    let mut header = json!({ "alg": "ES256", "kid": inside.kid });
    put(&mut header, &inside.header_put);
    let key = inside.signs_with.as_ref().unwrap_or(&inside.key);
    let token = (inside.spoil)(signed(key, &header, &claims), key);
    (200, json!({ "access_token": "x", "token_type": "Bearer", "id_token": token }))
}

/// Begins in this browser; gives where it is led.
fn begin(browser: &mut Browser<'_>) -> String {
    let page = browser.get("/login/provider");
    assert_eq!(page.status, 303, "{page:?}");
    let cookie = &page.headers["set-cookie"];
    assert!(cookie.contains("HttpOnly; SameSite=Lax; Path=/login/provider; Max-Age=600"), "{cookie}");
    browser.cookie = cookie.split(';').next().map(str::to_owned);
    page.headers["location"].clone()
}

fn path(answer: &BTreeMap<String, String>) -> String {
    let fields: Vec<String> =
        answer.iter().map(|(name, value)| format!("{name}={}", value.replace(' ', "%20"))).collect();
    format!("/login/provider/back?{}", fields.join("&"))
}

/// All of it.
fn log_in<'a>(lab: &'a Running, vouching: &Vouching) -> (Browser<'a>, Page) {
    let mut browser = Browser::new(lab);
    let to = begin(&mut browser);
    let page = browser.get(&path(&vouching.let_in(&to)));
    if page.status == 200 {
        browser.take_cookie(&page);
    }
    (browser, page)
}

fn names(lab: &Running) -> Vec<String> {
    lab.wait_for(people::all(&lab.lab)).unwrap().into_iter().map(|one| one.name).collect()
}

#[test]
fn who_logs_in_at_the_provider_may_do_what_his_groups_may() {
    let vouching = Vouching::start();
    let lab = Running::start_with(vouching.provider());
    let login = Browser::new(&lab).get("/login").body;
    assert!(login.contains("href=\"/login/provider\"") && login.contains("Example &lt;Login&gt;"), "{login}");
    let (lead, page) = log_in(&lab, &vouching);
    // A browser that comes from the provider sends the cookie of the session with no redirect: a page of ours leads on.
    assert!(
        page.status == 200 && page.body.contains("http-equiv=\"refresh\" content=\"0;url=/\""),
        "{page:?}"
    );
    assert!(page.headers["set-cookie"].contains("biopsy-lab-attempt=; "), "{page:?}");
    assert_eq!(["/", "/requests", "/people", "/log"].map(|path| lead.get(path).status), [200, 200, 403, 403]);
    assert_eq!(names(&lab), ["oidc:ada"]);
    // Other groups, other rights, for what is open, too; the provider's own name for him is who he is.
    vouching.set(|inside| {
        inside.claims = json!({ "sub": "0001", "preferred_username": "ada.lovelace", "groups": "support" });
    });
    let (analyst, _) = log_in(&lab, &vouching);
    assert_eq!([&lead, &analyst].map(|browser| browser.get("/requests").status), [403, 403]);
    assert_eq!(names(&lab), ["oidc:ada"]);
    // Another with the label of the first, and one without groups.
    vouching.set(|inside| {
        inside.claims = json!({ "sub": "0002", "preferred_username": "ada", "groups": ["support", "it"] });
    });
    let (other, _) = log_in(&lab, &vouching);
    assert_eq!(["/requests", "/people"].map(|path| other.get(path).status), [403, 200]);
    let both = names(&lab);
    assert!(both.len() == 2 && both[1].starts_with("oidc:ada~"), "{both:?}");
    let shown = other.get("/people").body;
    assert!(shown.contains("by the provider"), "{shown}");
    let out = other.post("/logout", &[]);
    assert_eq!((out.status, out.headers["location"].as_str()), (303, "/login?out"));
    assert_eq!(other.get("/").status, 303);
    assert!(other.get("/login?out").body.contains("Log out of Example &lt;Login&gt;"));
    let out = other.get("/login/provider/out").headers["location"].clone();
    let end = format!("http://{}/end?client_id=the%20lab&post_logout_redirect_uri=", vouching.address);
    assert!(out.starts_with(&end), "{out}");
}

#[test]
fn who_has_no_role_gets_no_account_and_who_has_none_any_more_loses_his() {
    let vouching = Vouching::start();
    let lab = Running::start_with(vouching.provider());
    for groups in [json!(["staff"]), json!([]), json!(null), json!({ "support": true }), json!("lead")] {
        vouching.set(|inside| inside.claims_put = json!({ "groups": groups }));
        let (browser, page) = log_in(&lab, &vouching);
        assert!(page.status == 403 && page.body.contains("None of your groups"), "{page:?}");
        assert_eq!(browser.get("/").status, 303);
    }
    assert!(names(&lab).is_empty());
    vouching.set(|inside| inside.claims_put = json!({}));
    let (ada, _) = log_in(&lab, &vouching);
    assert_eq!(ada.get("/").status, 200);
    vouching.set(|inside| inside.claims_put = json!({ "groups": ["staff"] }));
    assert_eq!(log_in(&lab, &vouching).1.status, 403);
    assert_eq!(ada.get("/").status, 303, "what was open is not");
    assert!(names(&lab).is_empty());
}

#[test]
fn a_provider_that_lies_lets_nobody_in() {
    let vouching = Vouching::start();
    let lab = Running::start_with(vouching.provider());
    let refused = |what: &str| {
        let (browser, page) = log_in(&lab, &vouching);
        assert_eq!(page.status, 502, "{what}: {page:?}");
        assert_eq!(browser.get("/").status, 303, "{what}");
        assert!(!page.body.contains("ID token"), "strangers are told nothing: {}", page.body);
    };
    for claims in [
        json!({ "iss": "https://another.example" }),
        json!({ "aud": "another" }),
        json!({ "aud": ["the lab", "another"] }),
        json!({ "azp": "another" }),
        json!({ "exp": now() - 120 }),
        json!({ "exp": null }),
        json!({ "iat": now() - 3600 }),
        json!({ "nonce": "of an attempt before" }),
        json!({ "nonce": null }),
        json!({ "sub": null }),
    ] {
        vouching.set(|inside| inside.claims_put = claims.clone());
        refused(&claims.to_string());
    }
    vouching.set(|inside| inside.claims_put = json!({}));
    for header in [
        json!({ "alg": "none" }),
        json!({ "alg": "HS256" }),
        json!({ "alg": "RS256" }),
        json!({ "kid": "2" }),
    ] {
        vouching.set(|inside| inside.header_put = header.clone());
        refused(&header.to_string());
    }
    vouching.set(|inside| inside.header_put = json!({}));
    let spoils: [(&str, Spoil); 4] = [
        ("no signature, and says so", |token, _| {
            let body = token.split('.').nth(1).unwrap();
            format!("{}.{body}.", URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#))
        }),
        ("signed with the public key as a secret", |token, key| {
            let body = token.split('.').nth(1).unwrap();
            let message = format!("{}.{body}", URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256","kid":"1"}"#));
            let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key.public_key().as_ref());
            format!("{message}.{}", URL_SAFE_NO_PAD.encode(ring::hmac::sign(&secret, message.as_bytes())))
        }),
        ("signed by another", |token, _| {
            let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
            let header = json!({ "alg": "ES256", "kid": "1" });
            signed(&key(), &header, &serde_json::from_slice(&claims).unwrap())
        }),
        ("none", |_, _| String::new()),
    ];
    for (what, spoil) in spoils {
        vouching.set(|inside| inside.spoil = spoil);
        refused(what);
    }
    assert!(names(&lab).is_empty());
    vouching.set(|inside| inside.spoil = |token, _| token);
    assert_eq!(log_in(&lab, &vouching).1.status, 200, "it was that, and nothing else");
}

#[test]
fn an_answer_is_good_once_in_the_browser_that_began_and_from_that_provider() {
    let vouching = Vouching::start();
    let lab = Running::start_with(vouching.provider());
    let mut browser = Browser::new(&lab);
    let answer = vouching.let_in(&begin(&mut browser));
    let refused = |browser: &Browser<'_>, path: &str| {
        let page = browser.get(path);
        assert!(page.status == 403 && page.body.contains("begun in another browser"), "{path} {page:?}");
    };
    // Somebody else is made to follow the link, with an attempt of his own and with none.
    let mut other = Browser::new(&lab);
    refused(&other, &path(&answer));
    begin(&mut other);
    refused(&other, &path(&answer));
    refused(&browser, &path(&BTreeMap::from([("code".to_owned(), answer["code"].clone())])));
    let mut changed = answer.clone();
    changed.insert("state".to_owned(), "another".to_owned());
    refused(&browser, &path(&changed));
    let mut spoilt = Browser::new(&lab);
    spoilt.cookie = browser.cookie.as_ref().map(|cookie| format!("{}A", &cookie[..cookie.len() - 1]));
    refused(&spoilt, &path(&answer));
    assert_eq!(vouching.exchanges(), 0, "nobody has asked for a token");
    let page = browser.get(&path(&answer));
    assert_eq!(page.status, 200, "{page:?}");
    // Once more, by whoever has seen all of it.
    refused(&browser, &path(&answer));
    assert_eq!(vouching.exchanges(), 1);
    // An answer of another provider (RFC 9207), and one that says no.
    let mut browser = Browser::new(&lab);
    let mut answer = vouching.let_in(&begin(&mut browser));
    answer.insert("iss".to_owned(), "https://another.example".to_owned());
    assert_eq!(browser.get(&path(&answer)).status, 502);
    let mut answer = vouching.let_in(&begin(&mut browser));
    answer.remove("code");
    answer.insert("error".to_owned(), "access_denied%3Cscript%3E".to_owned());
    let page = browser.get(&path(&answer));
    assert!(page.status == 403 && page.body.contains("it says access_deniedscript."), "{page:?}");
    assert_eq!(vouching.exchanges(), 1);
    // A code that was given to another attempt: the verifier is not of it.
    let (first, second) = (vouching.let_in(&begin(&mut browser)), vouching.let_in(&begin(&mut browser)));
    let mixed = BTreeMap::from([
        ("code".to_owned(), first["code"].clone()),
        ("state".to_owned(), second["state"].clone()),
    ]);
    assert_eq!(browser.get(&path(&mixed)).status, 502);
}

#[test]
fn a_provider_may_change_its_keys() {
    let vouching = Vouching::start();
    let lab = Running::start_with(vouching.provider());
    for _ in 0..2 {
        assert_eq!(log_in(&lab, &vouching).1.status, 200);
    }
    assert_eq!(vouching.asked_for_keys(), 1, "they are kept");
    // A moment after the lab has asked for them: who logs in now does not have to wait until they are old.
    let old = vouching.change_key("2");
    assert_eq!(log_in(&lab, &vouching).1.status, 200, "with the new key");
    assert_eq!(vouching.asked_for_keys(), 2);
    // The old one, which somebody may have stolen, is none of its keys any more, whatever it is called.
    vouching.set(|inside| inside.signs_with = Some(old));
    for kid in ["1", "2", "3"] {
        vouching.set(|inside| inside.header_put = json!({ "kid": kid }));
        assert_eq!(log_in(&lab, &vouching).1.status, 502, "with the old key");
    }
    assert_eq!(vouching.asked_for_keys(), 2, "and it is not asked each time");
    vouching.set(|inside| (inside.signs_with, inside.header_put) = (None, json!({})));
    assert_eq!(log_in(&lab, &vouching).1.status, 200);
}

#[test]
fn a_new_key_may_have_the_name_of_the_old_one() {
    let vouching = Vouching::start();
    let lab = Running::start_with(vouching.provider());
    assert_eq!(log_in(&lab, &vouching).1.status, 200);
    let _ = vouching.change_key("1");
    assert_eq!(log_in(&lab, &vouching).1.status, 200, "with the new key");
    assert_eq!(vouching.asked_for_keys(), 2);
}

#[test]
fn of_many_who_come_with_a_new_key_each_is_logged_in_and_the_provider_is_asked_once() {
    let vouching = Vouching::start();
    let lab = Running::start_with(vouching.provider());
    assert_eq!(log_in(&lab, &vouching).1.status, 200);
    let _ = vouching.change_key("2");
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..6).map(|_| scope.spawn(|| log_in(&lab, &vouching).1.status)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(statuses, [200; 6]);
    assert_eq!(vouching.asked_for_keys(), 2);
}

#[test]
fn a_provider_that_does_not_say_its_keys_is_asked_again_by_the_next_one() {
    let vouching = Vouching::start();
    let lab = Running::start_with(vouching.provider());
    assert_eq!(log_in(&lab, &vouching).1.status, 200);
    let old = vouching.change_key("2");
    vouching.set(|inside| inside.keeps_keys_back = true);
    assert_eq!(log_in(&lab, &vouching).1.status, 502);
    // What is known stays known.
    vouching.set(|inside| (inside.signs_with, inside.header_put) = (Some(old), json!({ "kid": "1" })));
    assert_eq!(log_in(&lab, &vouching).1.status, 200);
    vouching.set(|inside| {
        (inside.signs_with, inside.header_put, inside.keeps_keys_back) = (None, json!({}), false);
    });
    assert_eq!(log_in(&lab, &vouching).1.status, 200, "with the new key");
}

#[test]
fn a_provider_that_is_away_or_another_stops_nobody_else() {
    let vouching = Vouching::start();
    vouching.set(|inside| inside.issuer = Some("https://another.example".to_owned()));
    let away = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for provider in [vouching.provider(), provider(&format!("http://{away}"))] {
        let lab = Running::start_with(provider);
        let page = Browser::new(&lab).get("/login/provider");
        assert_eq!(page.status, 502, "{page:?}");
        let (local, _) = entered(&lab, "ada", &[Role::Administrator]);
        assert_eq!(local.get("/people").status, 200);
    }
    // Where there is none, nothing leads there.
    let lab = Running::start();
    let browser = Browser::new(&lab);
    assert!(!browser.get("/login").body.contains("/login/provider"));
    for path in ["/login/provider", "/login/provider/back?code=1&state=2", "/login/provider/out"] {
        assert_eq!(browser.get(path).headers["location"], "/login");
    }
}

#[test]
fn whom_a_provider_vouches_for_is_nobody_elses_and_no_last_administrator() {
    let vouching = Vouching::start();
    let lab = Running::start_with(vouching.provider());
    let (local, _) = entered(&lab, "ada", &[Role::Administrator]);
    vouching.set(|inside| {
        inside.claims = json!({ "sub": "0002", "preferred_username": "ada", "groups": ["it"] })
    });
    let (vouched, _) = log_in(&lab, &vouching);
    assert_eq!(names(&lab), ["ada", "oidc:ada"]);
    assert_eq!(vouched.get("/people").status, 200);
    // No password is of that name, and nobody is invited by it.
    assert_eq!(vouched.post("/login", &[("name", "oidc:ada"), ("password", ""), ("code", "")]).status, 403);
    assert_eq!(local.post("/people", &[("name", "oidc:ada"), ("lead", "on")]).status, 400);
    // A provider can be away or taken over: one administrator of the lab's own has to be left.
    assert_eq!(vouched.post("/people/remove", &[("name", "ada")]).status, 400);
    assert_eq!(local.post("/people/remove", &[("name", "oidc:ada")]).status, 303);
    assert_eq!(vouched.get("/").status, 303);
}
