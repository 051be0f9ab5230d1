//! `biopsy verify-deletion`: whether a certificate is what it says, without a network.

use biopsy_cli::VerifyDeletionArgs;
use std::io::Read;
use std::path::Path;

use biopsy_capture::{Failure, FailureKind};
use biopsy_deliver::certificate::verify;
use biopsy_deliver::signed;
use biopsy_model::printable::printable;
use jiff::Timestamp;

use biopsy_foreground::{Code, out};

/// Runs `biopsy verify-deletion`.
pub(crate) fn verify_deletion(args: &VerifyDeletionArgs) -> Result<Code, Failure> {
    let certificate = read(&args.certificate)?;
    let receipt = args.receipt.as_deref().map(read).transpose()?;
    let verified = verify(&certificate, args.signer, receipt.as_deref())
        .map_err(|error| Failure::from_error(FailureKind::BadInput, &error))?;
    // The lab's words: none of them may look like a line of ours.
    let certificate = &verified.certificate;
    let time = |seconds| Timestamp::from_second(seconds).map(|time| time.to_string()).unwrap_or_default();
    let mut text = format!(
        "case {} was deleted on {} by {}: {}\nsigned by {}\n",
        printable(&certificate.case),
        time(certificate.deleted),
        printable(&certificate.by),
        printable(&certificate.reason),
        verified.signer.fingerprint(),
    );
    for sent in &certificate.received {
        text.push_str(&format!("received: {} bytes, sha256 {}\n", sent.bytes, printable(&sent.sha256)));
    }
    for key in &certificate.sealed_to {
        text.push_str(&format!("sealed to {}, a key that the lab did not have\n", printable(key)));
    }
    for place in &certificate.places {
        let [name, kind, result] = [&place.name, &place.kind, &place.result].map(|text| printable(text));
        text.push_str(&format!("{name} ({kind}): {result}\n"));
    }
    text.push_str(&match certificate.reads.len() {
        0 => "read by nobody before\n".to_owned(),
        1 => "read once before\n".to_owned(),
        times => format!("read {times} times before\n"),
    });
    for read in &certificate.reads {
        text.push_str(&format!(
            "  {} {}: {}\n",
            time(read.when),
            printable(&read.who),
            printable(&read.what)
        ));
    }
    text.push_str(&format!("what it does not say: {}\n", printable(&certificate.limits)));
    text.push_str(if verified.is_known_signer {
        "the certificate is right\n"
    } else {
        "the signature is right; whose it is, only `--receipt` or `--signer` can tell\n"
    });
    out::text(&text, false)?;
    Ok(if verified.is_known_signer { Code::Ok } else { Code::Partial })
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(signed::MOST_BYTES as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| {
            Failure::new(FailureKind::BadInput, format!("cannot read `{}`: {error}", path.display()))
        })?;
    Ok(bytes)
}
