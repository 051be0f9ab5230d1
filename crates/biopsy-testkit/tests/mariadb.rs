//! The private server answers under its load generator, and nothing is left behind.

use std::time::Duration;

use biopsy_testkit::{MariaDb, Privilege, is_running, require_all};

#[test]
fn the_private_server_works_and_is_gone_afterwards() {
    if !require_all(&[Privilege::MariaDb, Privilege::Sysbench]) {
        return;
    }
    let server = MariaDb::start().unwrap();
    let pid = server.pid();
    server.prepare_load().unwrap();
    let before = server.questions().unwrap();
    let load = server.load(60).unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    let answered = server.questions().unwrap() - before;
    let latencies = load.stop();
    assert!(answered > 100, "only {answered} statements");
    assert!(!latencies.is_empty());
    drop(server);
    assert!(!is_running(pid));
}
