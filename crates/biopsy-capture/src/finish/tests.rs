//! Nothing leaves with a secret in it.

use biopsy_model::timeline::TimelineEvent;
use biopsy_model::{MonoNanos, Pid, Tid};

use biopsy_model::ProcessKey;
use biopsy_recording::Limits;

use super::mask::mask_again;
use super::verify::{hand_over, timeline_texts};
use super::*;
use crate::job::{Event, Observer};

const SECRET: &str = "Lg7kQ2zV99xLmP4t";

struct Nobody;

impl Observer for Nobody {
    fn event(&self, _: Event<'_>) {}
}

fn job() -> Job {
    Job::new(Box::new(Nobody))
}

fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// A recording in which a value stands everywhere, and is announced in one log, last by name.
fn recording() -> (tempfile::TempDir, Draft) {
    let scratch = tempfile::tempdir().unwrap();
    let key = ProcessKey { boot_id: biopsy_model::BootId(String::new()), pid: Pid(1), start_ticks: 0 };
    let mut draft = Draft::begin(&job(), &scratch.path().join("r"), &key, "x", &[]).unwrap();
    draft.keep();
    let folder = &draft.folder;
    folder.write_text("logs/a.jsonl", &format!("opened {SECRET} again\n")).unwrap();
    folder.write_text("logs/z.jsonl", &format!("password={SECRET} was refused\n")).unwrap();
    folder.write_text("metrics/x.csv", &format!("name,value\n{SECRET},1\n")).unwrap();
    let mut stream = b"Nettrace\x01\x02".to_vec();
    stream.extend_from_slice(&[0; 700]);
    for _ in 0..3 {
        stream.extend_from_slice(&wide(&format!("cannot open {SECRET} at all\0")));
        stream.resize(stream.len() + (1 << 20) - 40, 1);
    }
    folder.write_bytes("dotnet/7.nettrace", &stream).unwrap();
    let mut timeline = folder.timeline().unwrap();
    let name = format!("t {SECRET}");
    timeline.push(&TimelineEvent::ThreadName { time: MonoNanos(1), tid: Tid(2), name }).unwrap();
    timeline.finish().unwrap();
    (scratch, draft)
}

fn has(bytes: &[u8]) -> bool {
    [SECRET.as_bytes().to_vec(), wide(SECRET)]
        .iter()
        .any(|form| bytes.windows(form.len()).any(|window| window == form))
}

#[test]
fn what_is_learned_last_is_masked_in_every_member() {
    let (scratch, draft) = recording();
    let folder = &draft.folder;
    let length = folder.path().join("dotnet/7.nettrace").metadata().unwrap().len();
    mask_again(&draft).unwrap();
    for name in folder.members().unwrap() {
        assert!(!has(&std::fs::read(folder.path().join(&name)).unwrap()), "{name}");
    }
    assert_eq!(folder.path().join("dotnet/7.nettrace").metadata().unwrap().len(), length);
    let file = std::fs::File::open(folder.path().join(layout::TIMELINE)).unwrap();
    let texts = String::from_utf8(timeline_texts(file).unwrap()).unwrap();
    assert!(texts.starts_with("t [redacted:learned:"), "{texts}");
    let out = scratch.path().join("out.zip");
    let done = hand_over(&job(), folder, Some(&out), draft.masking.redactor()).unwrap();
    assert!(done.is_bundle && done.path == out && !folder.path().exists());
    biopsy_recording::open(&out, &Limits::default()).unwrap();
}

#[test]
fn nothing_is_handed_over_while_a_secret_is_in_any_member() {
    for name in ["logs/a.jsonl", "dotnet/7.nettrace", layout::TIMELINE] {
        let (scratch, draft) = recording();
        let folder = &draft.folder;
        let kept = std::fs::read(folder.path().join(name)).unwrap();
        mask_again(&draft).unwrap();
        folder.write_bytes(name, &kept).unwrap();
        for bundle in [Some(scratch.path().join("out.zip")), None] {
            let failure = hand_over(&job(), folder, bundle.as_deref(), draft.masking.redactor()).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Secrets, "{name}: {failure}");
            assert!(failure.to_string().contains(name), "{name}: {failure}");
            assert!(!failure.to_string().contains(SECRET));
        }
        assert!(!scratch.path().join("out.zip").exists() && folder.path().exists());
        assert!(!folder.path().join(layout::MANIFEST).exists());
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 1, "nothing else is left");
    }
}

/// They are written before the secret is met, and only what was learned is masked in them: they are code.
#[test]
fn a_secret_in_the_name_of_a_type_is_masked_when_it_was_learned_later() {
    let (scratch, draft) = recording();
    let folder = &draft.folder;
    let name = layout::snapshot_member(1, layout::TYPES);
    let types = format!("{{\"name\":\"Shop.List<{SECRET}>\"}}\n{{\"name\":\"Shop.Secret<Token>\"}}\n");
    folder.write_bytes(&name, &zstd::encode_all(types.as_bytes(), 1).unwrap()).unwrap();
    mask_again(&draft).unwrap();
    let packed = std::fs::read(folder.path().join(&name)).unwrap();
    let masked = String::from_utf8(zstd::decode_all(&packed[..]).unwrap()).unwrap();
    assert_eq!(masked, types.replace(SECRET, &"*".repeat(SECRET.len())));
    let out = scratch.path().join("out.zip");
    let done = hand_over(&job(), folder, Some(&out), draft.masking.redactor()).unwrap();
    assert!(done.is_bundle && out.exists());
}

#[test]
fn what_cannot_be_read_is_a_finding() {
    let (scratch, draft) = recording();
    let folder = &draft.folder;
    mask_again(&draft).unwrap();
    // It begins like a timeline and is none.
    folder.write_bytes(layout::TIMELINE, b"something else").unwrap();
    let out = scratch.path().join("out.zip");
    let failure = hand_over(&job(), folder, Some(&out), draft.masking.redactor()).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Secrets, "{failure}");
    std::os::unix::fs::symlink("/nowhere", folder.path().join("logs/link")).unwrap();
    assert!(mask_again(&draft).is_err());
    assert!(hand_over(&job(), folder, None, draft.masking.redactor()).is_err());
    assert!(!out.exists());
}
