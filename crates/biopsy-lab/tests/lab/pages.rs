//! The pages: who may log in, and what each role may see and do.

use std::collections::BTreeMap;

use biopsy_lab::people::invite::{find, invite};
use biopsy_lab::people::second_factor::SecondFactor;
use biopsy_lab::people::{self, Role, Roles};
use biopsy_lab::place::now;
use biopsy_lab::web::Program;
use biopsy_lab::{LabError, cases, delete};
use biopsy_seal::seal_file;

use sha2::{Digest, Sha256};

use crate::support::{Running, send};

const PASSWORD: &str = "correct horse battery";

/// What came back.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) status: u16,
    pub(crate) body: String,
    pub(crate) headers: BTreeMap<String, String>,
}

/// Somebody with a browser, who follows no redirect by himself.
pub(crate) struct Browser<'a> {
    lab: &'a Running,
    agent: ureq::Agent,
    pub(crate) cookie: Option<String>,
}

impl<'a> Browser<'a> {
    pub(crate) fn new(lab: &'a Running) -> Self {
        // The lab closes what is silent: a connection that was kept may end just when it is used again.
        let config = ureq::Agent::config_builder()
            .max_redirects(0)
            .http_status_as_error(false)
            .max_idle_connections(0)
            .build();
        Self { lab, agent: config.into(), cookie: None }
    }

    pub(crate) fn get(&self, path: &str) -> Page {
        let mut call = self.agent.get(format!("http://{}{path}", self.lab.address));
        if let Some(cookie) = &self.cookie {
            call = call.header("cookie", cookie);
        }
        page(call.call().unwrap())
    }

    pub(crate) fn post(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        self.post_from(path, fields, "same-origin")
    }

    fn post_from(&self, path: &str, fields: &[(&str, &str)], site: &str) -> Page {
        let mut call = self.agent.post(format!("http://{}{path}", self.lab.address));
        call = call.header("sec-fetch-site", site);
        if let Some(cookie) = &self.cookie {
            call = call.header("cookie", cookie);
        }
        page(call.send_form(fields.iter().copied()).unwrap())
    }

    pub(crate) fn take_cookie(&mut self, page: &Page) {
        let cookie = page.headers.get("set-cookie").unwrap_or_else(|| panic!("no cookie: {page:?}"));
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
        self.cookie = cookie.split(';').next().map(str::to_owned);
    }

    fn log_in(&self, name: &str, password: &str, code: &str) -> Page {
        self.post("/login", &[("name", name), ("password", password), ("code", code)])
    }
}

fn page(mut response: ureq::http::Response<ureq::Body>) -> Page {
    let text = |value: &ureq::http::HeaderValue| value.to_str().unwrap().to_owned();
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in response.headers() {
        // Several of one name are lines of it.
        headers
            .entry(name.to_string())
            .and_modify(|all| *all = format!("{all}\n{}", text(value)))
            .or_insert_with(|| text(value));
    }
    Page { status: response.status().as_u16(), headers, body: response.body_mut().read_to_string().unwrap() }
}

/// Invites somebody, who takes the invitation; gives the app, too.
pub(crate) fn entered<'a>(lab: &'a Running, name: &str, roles: &[Role]) -> (Browser<'a>, SecondFactor) {
    let word = lab.wait_for(invite(&lab.lab, name, &Roles(roles.to_vec()), "test")).unwrap();
    let invitation = lab.wait_for(find(&lab.lab, &word)).unwrap().unwrap();
    let mut browser = Browser::new(lab);
    let path = format!("/welcome/{word}");
    let shown = browser.get(&path);
    assert!(shown.body.contains("<svg") && shown.body.contains(&invitation.second.typed()), "{}", shown.body);
    let code = invitation.second.code(now());
    let page = browser.post(&path, &[("password", PASSWORD), ("code", &code)]);
    assert_eq!(page.status, 303, "{page:?}");
    browser.take_cookie(&page);
    (browser, invitation.second)
}

#[test]
fn each_role_sees_and_does_what_it_may() {
    let lab = Running::start();
    let link = lab.ask("4711");
    send(&link, b"the evidence", &lab.path("sent.age")).unwrap();
    let asked: &[(&str, &str)] = &[
        ("case", "new"),
        ("recipe", "slow"),
        ("minutes", "3"),
        ("target", ""),
        ("asks", "us"),
        ("days", "9"),
        ("address", "http://lab.example"),
    ];
    let forms: [(&str, &[(&str, &str)]); 4] = [
        ("/requests", asked),
        ("/requests/none/revoke", &[]),
        ("/people", &[("name", "somebody"), ("analyst", "on")]),
        ("/case/4711/delete", &[("reason", "it has served"), ("name", "another")]),
    ];
    // What is refused is refused with 403; a case without a report yet, a request that is not there, a wrong name with 400.
    let table = [
        (Role::Intake, [200, 200, 200, 403, 403, 403], [200, 400, 403, 403]),
        (Role::Analyst, [200, 200, 403, 403, 403, 400], [403, 403, 403, 403]),
        (Role::Lead, [200, 200, 200, 403, 403, 400], [200, 400, 403, 400]),
        (Role::Auditor, [200, 200, 403, 403, 200, 403], [403, 403, 403, 403]),
        (Role::Administrator, [200, 200, 403, 200, 403, 403], [403, 403, 200, 403]),
    ];
    for (role, pages, posts) in table {
        let (browser, _) = entered(&lab, &format!("{}-person", role.name()), &[role]);
        let paths = ["/", "/case/4711", "/requests", "/people", "/log", "/case/4711/report"];
        assert_eq!(paths.map(|path| browser.get(path).status), pages, "{role:?}");
        assert_eq!(forms.map(|(path, fields)| browser.post(path, fields).status), posts, "{role:?}");
        for (path, fields) in forms {
            assert_eq!(browser.post_from(path, fields, "cross-site").status, 403, "{role:?} {path}");
        }
        let shows_deletion = browser.get("/case/4711").body.contains("Delete it for ever");
        assert_eq!(shows_deletion, role == Role::Lead);
    }
    // Who is not logged in is led to the login from everywhere.
    let nobody = Browser::new(&lab);
    for path in
        ["/", "/case/4711", "/case/4711/report", "/case/4711/certificate", "/requests", "/people", "/log"]
    {
        let page = nobody.get(path);
        assert_eq!((page.status, page.headers["location"].as_str()), (303, "/login"), "{path}");
    }
    for (path, fields) in forms {
        assert_eq!(nobody.post(path, fields).status, 303, "{path}");
    }
}

#[test]
fn at_login_nobody_is_told_what_was_wrong() {
    let lab = Running::start();
    let (_, second) = entered(&lab, "alice", &[Role::Analyst]);
    let browser = Browser::new(&lab);
    let next = second.code(now() + 30);
    let tries = [
        browser.log_in("alice", "wrong horse battery", &next),
        browser.log_in("alice", PASSWORD, "000000"),
        browser.log_in("alice", PASSWORD, &second.code(now() - 60)),
        browser.log_in("nobody", PASSWORD, &next),
        browser.log_in("", "", ""),
    ];
    for page in &tries {
        assert_eq!((page.status, &page.body), (403, &tries[0].body));
    }
    let page = browser.log_in("alice", PASSWORD, &next);
    assert_eq!(page.status, 303);
    // The same digits once more, as somebody who looked over the shoulder types them.
    assert_eq!(browser.log_in("alice", PASSWORD, &next).status, 403);
}

#[test]
fn who_guesses_has_to_wait_and_others_need_not() {
    let lab = Running::start();
    let (_, second) = entered(&lab, "alice", &[Role::Analyst]);
    let (_, of_bob) = entered(&lab, "bob", &[Role::Analyst]);
    let browser = Browser::new(&lab);
    let guess = |times: u32| {
        for _ in 0..times {
            browser.log_in("alice", "wrong horse battery", "000000");
        }
    };
    guess(5);
    let pool = lab.lab.store.pool();
    let set = |wait: i64| {
        let statement = sqlx::query("UPDATE people SET not_before = $1 WHERE name = 'alice'");
        lab.wait_for(statement.bind(now() + wait).execute(pool)).unwrap();
    };
    // However long the guesses take here, what follows is too early.
    set(1000);
    guess(4);
    let (failed,): (i64,) = lab
        .wait_for(sqlx::query_as("SELECT failed FROM people WHERE name = 'alice'").fetch_one(pool))
        .unwrap();
    assert_eq!(failed, 5, "what was not looked at does not count");
    set(100);
    let code = second.code(now() + 30);
    assert_eq!(browser.log_in("alice", PASSWORD, &code).status, 403, "right, and too early");
    assert_eq!(browser.log_in("bob", PASSWORD, &of_bob.code(now() + 30)).status, 303);
    set(0);
    assert_eq!(browser.log_in("alice", PASSWORD, &second.code(now() + 30)).status, 303);
}

#[test]
fn an_invitation_is_good_once_and_what_was_open_ends_with_a_person() {
    let lab = Running::start();
    let (admin, _) = entered(&lab, "admin", &[Role::Administrator]);
    let page = admin.post("/people", &[("name", "carol"), ("analyst", "on"), ("lead", "on")]);
    let start = page.body.find("/welcome/").unwrap();
    let path: String = page.body[start..].chars().take_while(|one| !"<\"".contains(*one)).collect();
    let word = path.trim_start_matches("/welcome/");
    let second = lab.wait_for(find(&lab.lab, word)).unwrap().unwrap().second;
    let mut carol = Browser::new(&lab);
    for (password, code) in [("short", second.code(now())), (PASSWORD, "000000".to_owned())] {
        assert_eq!(carol.post(&path, &[("password", password), ("code", &code)]).status, 400);
    }
    let right = [("password", PASSWORD), ("code", &*second.code(now()))];
    let page = carol.post(&path, &right);
    carol.take_cookie(&page);
    assert_eq!(carol.post(&path, &right).status, 404, "it is taken");
    assert_eq!(carol.get("/requests").status, 200);
    // Another role, and so another invitation: what was open is not.
    admin.post("/people", &[("name", "carol"), ("auditor", "on")]);
    assert_eq!(carol.get("/").status, 303);
    let (dave, _) = entered(&lab, "dave", &[Role::Lead]);
    assert_eq!(dave.get("/").status, 200);
    assert_eq!(admin.post("/people/remove", &[("name", "dave")]).status, 303);
    assert_eq!(dave.get("/").status, 303);
    // Somebody has to be left who can let others in.
    assert_eq!(admin.post("/people/remove", &[("name", "admin")]).status, 400);
    assert_eq!(admin.post("/people", &[("name", "admin"), ("lead", "on")]).status, 400);
    assert_eq!(admin.get("/people").status, 200);
    let names: Vec<String> =
        lab.wait_for(people::all(&lab.lab)).unwrap().into_iter().map(|one| one.name).collect();
    assert_eq!(names, ["admin", "carol"]);
    let leave = admin.post("/logout", &[]);
    assert!(leave.headers["set-cookie"].contains("Max-Age=0"));
    assert_eq!(admin.get("/").status, 303, "the word is worth nothing now");
}

#[test]
fn a_database_gives_no_password_and_no_second_factor_away() {
    let (lab, other) = (Running::start(), Running::start());
    let (_, second) = entered(&lab, "alice", &[Role::Analyst]);
    let kept: (String, Vec<u8>) = lab
        .wait_for(
            sqlx::query_as("SELECT password, second FROM people WHERE name = 'alice'")
                .fetch_one(lab.lab.store.pool()),
        )
        .unwrap();
    assert!(kept.0.starts_with("$argon2id$") && !kept.0.contains(PASSWORD));
    let elsewhere = SecondFactor::of(&other.lab, &kept.1, "alice").unwrap();
    assert_eq!(SecondFactor::of(&lab.lab, &kept.1, "alice").unwrap().typed(), second.typed());
    assert_ne!(elsewhere.typed(), second.typed(), "with the keys of another lab");
    assert_ne!(SecondFactor::of(&lab.lab, &kept.1, "bob").unwrap().typed(), second.typed());
}

#[test]
fn pages_run_no_script_and_names_stay_text() {
    let lab = Running::start();
    let (browser, _) =
        entered(&lab, "o.brien+x@example.org", &[Role::Lead, Role::Auditor, Role::Administrator]);
    lab.ask("4711");
    let reason = "<script>alert(1)</script>";
    lab.wait_for(delete::case(&lab.lab, "4711", "test", reason)).unwrap();
    let fields = [
        ("case", "<b>x</b>"),
        ("recipe", "slow"),
        ("minutes", "3"),
        ("target", ""),
        ("asks", "us"),
        ("days", "9"),
    ];
    let mut fields = fields.to_vec();
    fields.push(("address", "http://lab.example"));
    let mut pages: Vec<Page> =
        ["/", "/login", "/case/4711", "/requests", "/people", "/log", "/welcome/none", "/case/%3Cscript%3E"]
            .map(|path| browser.get(path))
            .into();
    pages.push(browser.post("/requests", &fields));
    for page in &pages {
        let policy = &page.headers["content-security-policy"];
        assert!(policy.contains("default-src 'none'") && !policy.contains("script-src"), "{policy}");
        assert_eq!(page.headers["cache-control"], "no-store");
        assert!(!page.body.contains("<script") && !page.body.contains("<b>x"), "{}", page.body);
    }
    // The page behind a link runs one script of ours, which reaches this lab alone.
    let page = browser.get("/r/anything");
    let policy = &page.headers["content-security-policy"];
    assert!(policy.contains("script-src 'self'; connect-src 'self'") && !policy.contains("*"), "{policy}");
    assert!(!policy.contains("unsafe-eval") && !page.body.contains("<script>"), "{}", page.body);
    assert_eq!(browser.get("/send.js").headers["content-type"], "text/javascript; charset=utf-8");
    let error = lab.wait_for(invite(&lab.lab, "<x>", &Roles(vec![Role::Lead]), "test")).unwrap_err();
    assert!(matches!(error, LabError::Usage(_)), "{error}");
}

/// As a worker leaves a report.
fn put_report(lab: &Running, case: &str, kind: &str, text: &str) {
    let recipient = lab.wait_for(cases::find(&lab.lab, case)).unwrap().recipient().unwrap();
    let name = format!("{case}-{}", kind.replace('.', "-"));
    seal_file(&mut text.as_bytes(), &lab.lab.storage.place(&name), &[recipient]).unwrap();
    lab.wait_for(lab.lab.storage.keep(&name)).unwrap();
    let put = sqlx::query(
        "INSERT INTO objects (name, case_id, upload_id, kind, bytes) SELECT $1, case_id, id, $2, 1 FROM uploads WHERE case_id = $3",
    );
    lab.wait_for(put.bind(name).bind(kind).bind(case).execute(lab.lab.store.pool())).unwrap();
}

#[test]
fn a_report_is_shown_in_a_sandbox_and_one_from_elsewhere_as_text() {
    let lab = Running::start();
    for case in ["ours", "theirs"] {
        send(&lab.ask(case), b"the evidence", &lab.path(&format!("{case}.age"))).unwrap();
        put_report(&lab, case, "report.md", "<script>alert(1)</script>");
    }
    put_report(&lab, "ours", "report.html", "<p>found</p>");
    let (browser, _) = entered(&lab, "ada", &[Role::Analyst]);
    for (case, content, body) in [
        ("ours", "text/html; charset=utf-8", "<p>found</p>"),
        ("theirs", "text/plain; charset=utf-8", "<script>alert(1)</script>"),
    ] {
        let page = browser.get(&format!("/case/{case}/report"));
        assert_eq!((page.status, page.body.as_str()), (200, body), "{case}");
        assert_eq!(page.headers["content-type"], content, "not text/plain");
        assert_eq!(page.headers["x-content-type-options"], "nosniff");
        assert_eq!(page.headers["cache-control"], "no-store");
        let policy = &page.headers["content-security-policy"];
        // It may draw: with no origin, no call, no form and no frame of others around it.
        assert!(policy.starts_with("sandbox allow-scripts; default-src 'none';"), "no sandbox: {policy}");
        for part in ["form-action 'none'", "base-uri 'none'", "frame-ancestors 'self'"] {
            assert!(policy.contains(part), "{part}: {policy}");
        }
        assert!(!policy.contains("connect-src") && !policy.contains("allow-same-origin"), "{policy}");
    }
}

#[test]
fn whoever_has_no_biopsy_gets_one_and_its_digest() {
    let lab = Running::start();
    let browser = Browser::new(&lab);
    let page = browser.get("/biopsy");
    assert_eq!((page.status, page.body.as_str()), (200, "\u{7f}ELF and so on"));
    assert_eq!(page.headers["x-content-type-options"], "nosniff");
    let digest = browser.get("/biopsy.sha256").body;
    let own = biopsy_deliver::state::hexadecimal(&Sha256::digest(page.body.as_bytes()));
    assert_eq!(digest, format!("{own}  biopsy\n"));
    assert_eq!(browser.get("/biopsy.sig").status, 404, "nobody has signed it");
    let told = browser.get("/program");
    assert!(told.status == 200 && told.body.contains(&own), "{told:?}");
    assert!(told.body.contains("curl -fO LAB/biopsy") && told.body.contains("no signature"), "{told:?}");
    let signed = lab.path("signed");
    std::fs::write(&signed, b"\x7fELF and so on").unwrap();
    std::fs::write(lab.path("signed.sig"), "untrusted comment").unwrap();
    assert!(Program::read(&signed).unwrap().page().contains("minisign -Vm biopsy"));
    assert!(Program::read(&lab.path("lab.keys/signing")).is_err(), "a key is no program");
}
