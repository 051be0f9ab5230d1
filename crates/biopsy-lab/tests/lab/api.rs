//! Programs with tokens: what each may do, and that what is described is what there is.

use biopsy_lab::people::{Role, Roles, token};
use biopsy_lab::place::now;
use biopsy_lab::{LabError, audit};
use serde_json::{Value, json};

use crate::support::{Running, send};

fn call(lab: &Running, method: &str, path: &str, token: Option<&str>, body: Option<&Value>) -> (u16, Value) {
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let mut request =
        ureq::http::Request::builder().method(method).uri(format!("http://{}{path}", lab.address));
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let text = body.map(ToString::to_string).unwrap_or_default();
    let request = request.header("content-type", "application/json").body(text).unwrap();
    let mut answer = agent.run(request).unwrap();
    let text = answer.body_mut().read_to_string().unwrap();
    (answer.status().as_u16(), serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

fn token_of(lab: &Running, role: Role) -> String {
    lab.wait_for(token::make(&lab.lab, role.name(), &Roles(vec![role]), 3600, "test")).unwrap()
}

fn asked(case: &str, lab: &Running) -> Value {
    json!({"case": case, "recipe": "file", "asks": "us", "address": format!("http://{}", lab.address)})
}

#[test]
fn a_program_asks_reads_and_deletes_as_its_roles_allow() {
    let lab = Running::start();
    send(&lab.ask("4711"), b"the evidence", &lab.path("sent.age")).unwrap();
    let reason = json!({"reason": "it has served"});
    // Without a report yet, reading is a bad request; a case that is not there is not found.
    let table = [
        (Role::Intake, [200, 200, 403, 200, 201, 403, 403]),
        (Role::Analyst, [200, 200, 400, 403, 403, 403, 403]),
        (Role::Lead, [200, 200, 400, 200, 201, 403, 404]),
        (Role::Auditor, [200, 200, 403, 403, 403, 200, 403]),
    ];
    for (role, wanted) in table {
        let token = token_of(&lab, role);
        let ask = asked(role.name(), &lab);
        let calls: [(&str, &str, Option<&Value>); 7] = [
            ("GET", "/lab/v1/cases", None),
            ("GET", "/lab/v1/cases/4711", None),
            ("GET", "/lab/v1/cases/4711/report", None),
            ("GET", "/lab/v1/requests", None),
            ("POST", "/lab/v1/requests", Some(&ask)),
            ("GET", "/lab/v1/log", None),
            ("DELETE", "/lab/v1/cases/none", Some(&reason)),
        ];
        let got = calls.map(|(method, path, body)| call(&lab, method, path, Some(&token), body).0);
        assert_eq!(got, wanted, "{role:?}");
    }
    let lead = lab.wait_for(token::make(&lab.lab, "desk", &Roles(vec![Role::Lead]), 60, "test")).unwrap();
    let (_, made) = call(&lab, "POST", "/lab/v1/requests", Some(&lead), Some(&asked("4712", &lab)));
    let link = made["link"].as_str().unwrap().parse().unwrap();
    send(&link, b"more evidence", &lab.path("more.age")).unwrap();
    let (_, case) = call(&lab, "GET", "/lab/v1/cases/4712", Some(&lead), None);
    assert_eq!((&case["state"], &case["objects"][0]["kind"]), (&json!("received"), &json!("sent")));
    let (status, certificate) = call(&lab, "DELETE", "/lab/v1/cases/4712", Some(&lead), Some(&reason));
    assert_eq!(status, 200);
    assert_eq!(call(&lab, "GET", "/lab/v1/cases/4712/certificate", Some(&lead), None).1, certificate);
    assert_eq!(call(&lab, "GET", "/lab/v1/cases/4712/report", Some(&lead), None).0, 410);
    let line = lab.wait_for(audit::newest(&lab.lab.store, 1)).unwrap().remove(0);
    assert_eq!((line.who.as_str(), line.what.as_str()), ("token:desk", "deleted"));
}

#[test]
fn what_is_described_is_there_and_wants_a_token() {
    let lab = Running::start();
    let (status, document) = call(&lab, "GET", "/lab/v1/openapi.json", None, None);
    assert_eq!((status, &document["openapi"]), (200, &json!("3.1.0")));
    let lead = token_of(&lab, Role::Lead);
    let mut calls = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let path = path.replace("{case}", "none").replace("{id}", "none");
            let method = method.to_uppercase();
            assert_eq!(call(&lab, &method, &path, None, None).0, 401, "{method} {path}");
            let (status, _) = call(&lab, &method, &path, Some(&lead), None);
            assert!(
                operation["responses"].get(status.to_string()).is_some(),
                "{method} {path} answers {status}"
            );
            assert_eq!(operation["security"], json!([{"token": []}]), "{method} {path}");
            calls += 1;
        }
    }
    assert_eq!(calls, 10);
}

#[test]
fn a_token_ends_and_nothing_but_a_token_will_do() {
    let lab = Running::start();
    let token = token_of(&lab, Role::Analyst);
    let status = |token: &str| call(&lab, "GET", "/lab/v1/cases", Some(token), None).0;
    assert_eq!(status(&token), 200);
    for wrong in ["", "x", &token[1..], &token.replace("biopsylab_", ""), &format!("{token}a"), "biopsylab_"]
    {
        assert_eq!(status(wrong), 401, "{wrong}");
    }
    let used = lab.wait_for(token::all(&lab.lab)).unwrap()[0].used;
    assert!(used.is_some_and(|used| used >= now() - 60));
    lab.wait_for(sqlx::query("UPDATE tokens SET expires = 1").execute(lab.lab.store.pool())).unwrap();
    assert_eq!(status(&token), 401, "it is over");
    let other = lab.wait_for(token::make(&lab.lab, "other", &Roles(vec![Role::Lead]), 60, "test")).unwrap();
    assert_eq!(status(&other), 200);
    let kept: Vec<(Vec<u8>,)> =
        lab.wait_for(sqlx::query_as("SELECT digest FROM tokens").fetch_all(lab.lab.store.pool())).unwrap();
    assert!(!kept.is_empty());
    for (kept, text) in kept.iter().flat_map(|(kept,)| [(kept, &token), (kept, &other)]) {
        let has = |part: &[u8]| kept.windows(part.len()).any(|there| there == part);
        assert!(!text.as_bytes().windows(8).any(has), "a part of a token is kept");
    }
    lab.wait_for(token::revoke(&lab.lab, "other", "test")).unwrap();
    assert_eq!(status(&other), 401, "it was revoked");
    for (name, roles, seconds) in [
        ("admin", vec![Role::Administrator], 60),
        ("none", vec![], 60),
        ("for ever", vec![Role::Lead], 60),
        ("forever", vec![Role::Lead], 400 * 24 * 3600),
    ] {
        let error = lab.wait_for(token::make(&lab.lab, name, &Roles(roles), seconds, "test")).unwrap_err();
        assert!(matches!(error, LabError::Usage(_)), "{error}");
    }
}
