//! An ID token: signed by the provider, about somebody, for this lab and this attempt, and not over. Signatures are looked at by `ring`, which TLS has below it anyway.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;
use serde_json::{Map, Value};

/// Largest token: groups can be many.
const MOST: usize = 256 << 10;
/// Seconds that clocks may differ.
const SKEW: f64 = 60.0;
/// A token is made while somebody logs in, and not before.
const OLDEST: f64 = 600.0;
/// Longest name of somebody, by the standard.
const LONGEST_SUBJECT: usize = 255;

/// None of the keys that are known has signed it.
pub(super) const UNKNOWN_KEY: &str = "it is signed with a key that is not the provider's";

/// A key of a provider, as it publishes it (RFC 7517).
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Key {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
    n: Option<String>,
    e: Option<String>,
}

/// What a token has to be.
#[derive(Debug)]
pub(super) struct Expected<'a> {
    pub(super) issuer: &'a str,
    pub(super) client: &'a str,
    pub(super) nonce: &'a str,
    /// Seconds since 1970.
    pub(super) now: i64,
}

/// Algorithms that are taken: all by public keys. `none`, and those by a secret that both know (`HS256`), are not among them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
enum Algorithm {
    #[serde(rename = "RS256")]
    Rs256,
    #[serde(rename = "PS256")]
    Ps256,
    #[serde(rename = "ES256")]
    Es256,
    #[serde(rename = "ES384")]
    Es384,
    #[serde(rename = "EdDSA")]
    EdDsa,
}

impl Algorithm {
    fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Ps256 => "PS256",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
        }
    }
}

#[derive(Deserialize)]
struct Header {
    alg: Value,
    kid: Option<String>,
    /// What has to be understood; nothing of that kind is.
    crit: Option<Value>,
}

/// What it says of somebody, once it is believed.
#[derive(Debug)]
pub(super) struct Claims {
    /// The provider's own name for him.
    pub(super) subject: String,
    all: Map<String, Value>,
}

#[derive(Deserialize)]
struct Standard {
    iss: String,
    sub: String,
    aud: OneOrMore,
    exp: f64,
    iat: f64,
    nbf: Option<f64>,
    nonce: Option<String>,
    azp: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    fn all(&self) -> &[String] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::More(more) => more,
        }
    }
}

impl Claims {
    /// A text.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.all.get(name)?.as_str()
    }

    /// Texts: of the claim of this name, or of what the points in it lead to. One text is a list of one.
    pub(super) fn texts(&self, way: &str) -> Vec<&str> {
        let found = self.all.get(way).or_else(|| {
            let (mut steps, mut here) = (way.split('.'), &self.all);
            let last = steps.next_back()?;
            for step in steps {
                here = here.get(step)?.as_object()?;
            }
            here.get(last)
        });
        match found {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }
}

/// Looks at all of it; `Err` is the first thing that is not as it should be.
pub(super) fn verify(token: &str, keys: &[Key], expected: &Expected<'_>) -> Result<Claims, &'static str> {
    let none = "it is none";
    if token.len() > MOST {
        return Err("it is too large");
    }
    let (message, signature) = token.rsplit_once('.').ok_or(none)?;
    let (head, body) = message.split_once('.').filter(|(_, body)| !body.contains('.')).ok_or(none)?;
    let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| none);
    let header: Header = serde_json::from_slice(&bytes(head)?).map_err(|_| none)?;
    let algorithm: Algorithm = serde_json::from_value(header.alg)
        .map_err(|_| "it is signed in a way that is not taken (RS256, PS256, ES256, ES384 and EdDSA are)")?;
    if header.crit.is_some() {
        return Err("it has to be read in a way that is not known here");
    }
    let signature = bytes(signature)?;
    let is_meant = |key: &&Key| {
        key.usage.as_deref().is_none_or(|usage| usage == "sig")
            && key.alg.as_deref().is_none_or(|alg| alg == algorithm.name())
            && header.kid.as_ref().is_none_or(|kid| key.kid.as_ref() == Some(kid))
    };
    let is_signed = |key: &Key| is_signed(algorithm, key, message.as_bytes(), &signature).unwrap_or(false);
    if !keys.iter().filter(is_meant).any(is_signed) {
        return Err(UNKNOWN_KEY);
    }
    let body = bytes(body)?;
    let standard: Standard =
        serde_json::from_slice(&body).map_err(|_| "it does not say all that it has to")?;
    let all: Map<String, Value> = serde_json::from_slice(&body).map_err(|_| none)?;
    is_expected(&standard, expected)?;
    Ok(Claims { subject: standard.sub, all })
}

fn is_expected(claims: &Standard, expected: &Expected<'_>) -> Result<(), &'static str> {
    let now = expected.now as f64;
    let audience = claims.aud.all();
    let is_for_us = |one: &String| one == expected.client;
    if claims.iss != expected.issuer {
        return Err("another provider has made it");
    }
    if !audience.iter().any(is_for_us) {
        return Err("it is for somebody else");
    }
    // Where it is for several, it says for whom it was made; and if it says so, it was for us.
    if claims.azp.as_ref().map_or(audience.len() > 1, |azp| !is_for_us(azp)) {
        return Err("it was made for somebody else");
    }
    if claims.nonce.as_deref() != Some(expected.nonce) {
        return Err("it was made for another attempt");
    }
    if claims.exp <= now - SKEW {
        return Err("it is over");
    }
    if claims.iat >= now + SKEW || claims.iat <= now - OLDEST {
        return Err("it was made at another time; are the clocks right?");
    }
    if claims.nbf.is_some_and(|nbf| nbf >= now + SKEW) {
        return Err("it is not good yet");
    }
    if !(1..=LONGEST_SUBJECT).contains(&claims.sub.len()) {
        return Err("it is about nobody");
    }
    Ok(())
}

/// Whether this key has signed it. `None`: it is no key of that kind.
fn is_signed(algorithm: Algorithm, key: &Key, message: &[u8], signature: &[u8]) -> Option<bool> {
    let part = |part: &Option<String>| URL_SAFE_NO_PAD.decode(part.as_ref()?).ok();
    let is = |kty: &str, crv: Option<&str>| (key.kty == kty && key.crv.as_deref() == crv).then_some(());
    let rsa = |parameters: &'static signature::RsaParameters| {
        is("RSA", None)?;
        let key = RsaPublicKeyComponents { n: part(&key.n)?, e: part(&key.e)? };
        Some(key.verify(parameters, message, signature).is_ok())
    };
    let curve = |name: &str, bytes: usize, parameters: &'static dyn signature::VerificationAlgorithm| {
        is("EC", Some(name))?;
        let (x, y) = (part(&key.x)?, part(&key.y)?);
        let point = [&[4][..], &x, &y].concat();
        let is_whole = x.len() == bytes && y.len() == bytes;
        Some(is_whole && UnparsedPublicKey::new(parameters, point).verify(message, signature).is_ok())
    };
    match algorithm {
        Algorithm::Rs256 => rsa(&signature::RSA_PKCS1_2048_8192_SHA256),
        Algorithm::Ps256 => rsa(&signature::RSA_PSS_2048_8192_SHA256),
        Algorithm::Es256 => curve("P-256", 32, &signature::ECDSA_P256_SHA256_FIXED),
        Algorithm::Es384 => curve("P-384", 48, &signature::ECDSA_P384_SHA384_FIXED),
        Algorithm::EdDsa => {
            is("OKP", Some("Ed25519"))?;
            let key = UnparsedPublicKey::new(&signature::ED25519, part(&key.x)?);
            Some(key.verify(message, signature).is_ok())
        }
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::{Ed25519KeyPair, KeyPair as _};
    use serde_json::json;

    use super::*;

    const NOW: i64 = 1_800_000_000;

    /// A provider with one key.
    struct Signing(Ed25519KeyPair);

    impl Signing {
        fn new(seed: u8) -> Self {
            Self(Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap())
        }

        fn key(&self, more: &Value) -> Key {
            let x = URL_SAFE_NO_PAD.encode(self.0.public_key());
            let mut key = json!({ "kty": "OKP", "crv": "Ed25519", "x": x, "kid": "one" });
            key.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            serde_json::from_value(key).unwrap()
        }

        fn token(&self, header: &Value, claims: &Value) -> String {
            let text = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
            let message = format!("{}.{}", text(header), text(claims));
            let signature = self.0.sign(message.as_bytes());
            format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
        }
    }

    fn header() -> Value {
        json!({ "alg": "EdDSA", "kid": "one" })
    }

    fn claims() -> Value {
        json!({ "iss": "https://p", "sub": "7", "aud": "lab", "exp": NOW + 300, "iat": NOW, "nonce": "n",
                "groups": ["a", "b"], "realm_access": { "roles": ["c", 4] }, "one": "d" })
    }

    fn changed(name: &str, value: &Value) -> Value {
        let mut claims = claims();
        claims[name] = value.clone();
        claims
    }

    fn of(token: &str, keys: &[Key]) -> Result<Claims, &'static str> {
        verify(token, keys, &Expected { issuer: "https://p", client: "lab", nonce: "n", now: NOW })
    }

    #[test]
    fn what_is_right_is_believed() {
        let provider = Signing::new(1);
        let keys = [provider.key(&json!({ "use": "sig", "alg": "EdDSA" }))];
        let believed = of(&provider.token(&header(), &claims()), &keys).unwrap();
        assert_eq!(believed.subject, "7");
        for (way, texts) in
            [("groups", &["a", "b"][..]), ("realm_access.roles", &["c"]), ("one", &["d"]), ("none.x", &[])]
        {
            assert_eq!(believed.texts(way), texts, "{way}");
        }
        for right in [
            changed("aud", &json!(["lab"])),
            changed("azp", &json!("lab")),
            changed("exp", &json!(NOW - 30)),
            changed("exp", &json!(1_800_000_300.5)),
        ] {
            of(&provider.token(&header(), &right), &keys).unwrap();
        }
        // No name of a key: any of them may be it.
        let nameless = provider.token(&json!({ "alg": "EdDSA" }), &claims());
        of(&nameless, &[Signing::new(2).key(&json!({})), provider.key(&json!({}))]).unwrap();
    }

    #[test]
    fn each_claim_that_is_wrong_is_refused() {
        let provider = Signing::new(1);
        let keys = [provider.key(&json!({}))];
        for (name, value, why) in [
            ("iss", json!("https://q"), "another provider"),
            ("iss", json!("https://p/"), "another provider"),
            ("aud", json!("other"), "for somebody else"),
            ("aud", json!([]), "for somebody else"),
            ("aud", json!(["lab", "other"]), "made for somebody else"),
            ("azp", json!("other"), "made for somebody else"),
            ("nonce", json!("m"), "another attempt"),
            ("nonce", json!(null), "another attempt"),
            ("exp", json!(NOW - 61), "over"),
            ("exp", json!("tomorrow"), "all that it has to"),
            ("exp", json!(null), "all that it has to"),
            ("iat", json!(NOW - 601), "another time"),
            ("iat", json!(NOW + 61), "another time"),
            ("iat", json!(null), "all that it has to"),
            ("nbf", json!(NOW + 61), "not good yet"),
            ("sub", json!(""), "nobody"),
            ("sub", json!(null), "all that it has to"),
        ] {
            let told = of(&provider.token(&header(), &changed(name, &value)), &keys).unwrap_err();
            assert!(told.contains(why), "{name} {value}: {told}");
        }
    }

    #[test]
    fn what_is_not_signed_by_the_provider_is_refused() {
        let (provider, stranger) = (Signing::new(1), Signing::new(2));
        let keys = [provider.key(&json!({}))];
        let right = provider.token(&header(), &claims());
        let (message, signature) = right.rsplit_once('.').unwrap();
        let (head, _) = message.split_once('.').unwrap();
        let other = URL_SAFE_NO_PAD.encode(changed("sub", &json!("1")).to_string());
        let none = |alg: &str| URL_SAFE_NO_PAD.encode(json!({ "alg": alg, "kid": "one" }).to_string());
        let body = URL_SAFE_NO_PAD.encode(claims().to_string());
        for token in [
            stranger.token(&header(), &claims()),
            format!("{head}.{other}.{signature}"),
            format!("{message}."),
            format!("{message}.{}", &signature[..80]),
            format!("{}.{body}.", none("none")),
            format!("{}.{body}.{signature}", none("None")),
            // The provider's public key as a secret: the classic.
            format!("{}.{body}.{signature}", none("HS256")),
            // A key of one kind with the algorithm of another.
            provider.token(&json!({ "alg": "RS256", "kid": "one" }), &claims()),
            provider.token(&json!({ "alg": "ES256", "kid": "one" }), &claims()),
            provider.token(&json!({ "alg": "EdDSA", "kid": "two" }), &claims()),
            provider.token(&json!({ "alg": "EdDSA", "kid": "one", "crit": ["b64"] }), &claims()),
            provider.token(&json!({ "alg": ["EdDSA"], "kid": "one" }), &claims()),
            format!("{right}.x"),
            format!("{right}="),
            String::new(),
            "..".to_owned(),
        ] {
            assert!(of(&token, &keys).is_err(), "{token}");
        }
        for (more, is_taken) in [
            (json!({ "use": "enc" }), false),
            (json!({ "alg": "ES256" }), false),
            (json!({ "kid": "two" }), false),
            (json!({ "crv": "Ed448" }), false),
            (json!({ "kty": "EC" }), false),
            (json!({}), true),
        ] {
            assert_eq!(of(&right, &[provider.key(&more)]).is_ok(), is_taken, "{more}");
        }
        assert_eq!(of(&right, &[]).unwrap_err(), UNKNOWN_KEY);
    }

    #[test]
    fn signatures_of_the_standards_are_right() {
        // RFC 7515, A.2 and A.3; RFC 8037, A.4: keys and signatures that others have made.
        let payload =
            "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
        let rsa = json!({ "kty": "RSA", "e": "AQAB", "n": "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ" });
        let rsa_signature = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
        let curve = json!({ "kty": "EC", "crv": "P-256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0" });
        let curve_signature =
            "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
        for (algorithm, head, key, signature) in [
            (Algorithm::Rs256, "eyJhbGciOiJSUzI1NiJ9", rsa, rsa_signature),
            (Algorithm::Es256, "eyJhbGciOiJFUzI1NiJ9", curve, curve_signature),
        ] {
            let key: Key = serde_json::from_value(key).unwrap();
            let message = format!("{head}.{payload}");
            let mut signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
            assert_eq!(
                is_signed(algorithm, &key, message.as_bytes(), &signature),
                Some(true),
                "{algorithm:?}"
            );
            signature[9] ^= 1;
            assert_eq!(is_signed(algorithm, &key, message.as_bytes(), &signature), Some(false));
            assert_eq!(is_signed(Algorithm::EdDsa, &key, message.as_bytes(), &signature), None);
        }
    }
}
