//! What a browser runs, run by Node: it seals and sends as the program does, and believes as little.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use biopsy_deliver::{Link, Receipt, Secret, Signed};
use biopsy_lab::cases;
use biopsy_seal::SealedFile;
use biopsy_testkit::require_program;
use sha2::{Digest, Sha256};

use crate::support::{Running, noise};

fn ui() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ui")
}

/// Sends a file by the link, as a page would; what it printed, or why not.
fn send_by_node(link: &str, file: &Path, cuts: u32) -> Result<String, String> {
    const PROGRAM: &str = r"
        import { readFileSync } from 'node:fs';
        import { webcrypto } from 'node:crypto';
        globalThis.crypto ??= webcrypto;
        const [script, text, file, cuts] = process.argv.slice(2);
        process.on('uncaughtException', (error) => {
            console.error(error.message);
            process.exit(1);
        });
        const { parseLink, Sender, seal, send } = await import(script);
        let left = Number(cuts);
        const fetched = globalThis.fetch;
        // Every second piece is cut: before it arrives, or after.
        globalThis.fetch = async (address, call) => {
            const isCut = call.method === 'PATCH' && left > 0 && (left -= 1) >= 0;
            if (isCut && left % 2) throw new Error('cut');
            const answer = await fetched(address, call);
            if (isCut) throw new Error('cut');
            return answer;
        };
        const sender = new Sender(parseLink(text), crypto.getRandomValues(new Uint8Array(32)));
        const request = await sender.request();
        const pieces = [];
        const sink = { write: async (piece) => void pieces.push(piece.slice()), close: async () => {} };
        const sealed = await seal(new Blob([readFileSync(file)]), request, sink, () => {});
        const watch = { at() {}, again() {}, place() {} };
        const { text: receipt } = await send(sender, new Blob(pieces), sealed, ['agreed'], null, watch);
        console.log(receipt);
    ";
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("send.mjs");
    fs::write(&program, PROGRAM).unwrap();
    // Without `type: module` beside it, Node takes the bundle for an older kind of script.
    let script = folder.path().join("bundle.mjs");
    fs::copy(ui().join("dist/send.js"), &script).unwrap();
    let done = Command::new("node")
        .args([&program, &script])
        .arg(link)
        .arg(file)
        .arg(cuts.to_string())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if done.status.success() { Ok(text(&done.stdout)) } else { Err(text(&done.stderr)) }
}

#[test]
fn a_browser_seals_and_sends_as_the_program_does_cut_or_not() {
    if !require_program("node", &["--version"]) {
        return;
    }
    let lab = Running::start();
    for (case, bytes, cuts) in [("small", 10, 0), ("chunks", 200_000, 0), ("cut", 3_000_000, 5)] {
        let link = lab.ask(case);
        let plain = noise(bytes, 7);
        let file = lab.path(case);
        fs::write(&file, &plain).unwrap();
        let receipt = send_by_node(&link.to_text(), &file, cuts).unwrap();
        let (receipt, _) =
            Signed::<Receipt>::parse(receipt.as_bytes()).unwrap().verify_by(link.signer).unwrap();
        assert_eq!((receipt.case.as_str(), &receipt.request), (case, &link.id));
        let object = lab.wait_for(cases::objects(&lab.lab, case)).unwrap().remove(0);
        let identity = lab.wait_for(cases::open(&lab.lab, case, "test", "test")).unwrap();
        let mut arrived = Vec::new();
        SealedFile::open(lab.held(&object.name).as_ref(), &identity)
            .unwrap()
            .read_to_end(&mut arrived)
            .unwrap();
        assert!(arrived == plain, "{case}: what arrived is what was sent");
    }
}

#[test]
fn a_browser_believes_no_lab_that_is_not_the_links() {
    if !require_program("node", &["--version"]) {
        return;
    }
    let lab = Running::start();
    let (good, other) = (lab.ask("1"), lab.ask("2"));
    let file = lab.path("file");
    fs::write(&file, b"the evidence").unwrap();
    let foreign = Running::start().ask("1");
    for (link, why) in [
        (Link { signer: foreign.signer, ..good.clone() }, "is not the one that your link is for"),
        (Link { readers: other.readers, ..good.clone() }, "is not the one that your link is for"),
        (Link { secret: Secret::generate(), ..good.clone() }, "The lab does not take it"),
    ] {
        let error = send_by_node(&link.to_text(), &file, 0).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    assert!(lab.wait_for(cases::objects(&lab.lab, "1")).unwrap().is_empty(), "nothing was sent");
    send_by_node(&good.to_text(), &file, 0).unwrap();
}

#[test]
fn the_built_script_is_current() {
    let mut names: Vec<String> = fs::read_dir(ui().join("send"))
        .unwrap()
        .map(|entry| format!("send/{}", entry.unwrap().file_name().to_string_lossy()))
        .collect();
    names.sort();
    names.extend(["build.mjs", "package.json", "dist/send.js"].map(String::from));
    let mut hash = Sha256::new();
    for name in &names {
        let content = fs::read(ui().join(name)).unwrap();
        hash.update(format!("{name} {}\n", content.len()));
        hash.update(content);
    }
    let digest = biopsy_deliver::state::hexadecimal(&hash.finalize());
    let noted = fs::read_to_string(ui().join("dist/send.digest")).unwrap();
    assert_eq!(noted.trim(), digest, "run `npm ci && npm run build` in ui/");
}
