//! What a notice says, in words: for mail and chat. Names of cases and numbers, never content.

/// For whom a sentence is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reader {
    /// The lab's own people.
    Vendor,
    /// Who sent it.
    Customer,
}

/// A subject and a text; `None`: it is not told to this reader.
pub(super) fn words(reader: Reader, event: &str, case: &str, bytes: i64) -> Option<(String, String)> {
    let of = format!("case {case}");
    let (subject, text) = match (reader, event) {
        (Reader::Vendor, "upload.completed") => {
            ("received", format!("{bytes} bytes arrived for {of}, sealed. They are being analysed."))
        }
        (Reader::Vendor, "upload.stalled") => (
            "stalled",
            format!(
                "{bytes} bytes of an upload for {of} arrived, and then nothing for half an hour. Whoever sends it may think that it is done: \
                     the same command, run again, goes on from there."
            ),
        ),
        (Reader::Vendor, "analysis.completed") => {
            ("analysed", format!("{of} was analysed: the report is in the lab."))
        }
        (Reader::Vendor, "analysis.failed") => (
            "not analysed",
            format!(
                "the analysis of {of} failed three times. What was sent is kept; `biopsy open {case}` tries by hand."
            ),
        ),
        (Reader::Vendor, "retention.warning") => (
            "deletes itself soon",
            format!(
                "{of} deletes itself within three days. Afterwards nobody can read it, from no back-up either."
            ),
        ),
        (Reader::Vendor, "case.deleted") => {
            ("deleted", format!("{of} was deleted. The certificate is attached."))
        }
        (Reader::Customer, "upload.completed") => (
            "received",
            format!(
                "What you sent for {of} has arrived and is what you sent: {bytes} bytes, sealed. The signed receipt is beside the sealed file on \
                     your machine. Keep it: it is how you check later that everything was deleted."
            ),
        ),
        (Reader::Customer, "analysis.completed") => (
            "analysed",
            format!(
                "What you sent for {of} was analysed. Whoever asked you for it has the report, and goes on from there."
            ),
        ),
        (Reader::Customer, "case.deleted") => (
            "deleted",
            format!(
                "What you sent for {of} was deleted, and can be read from no back-up either. The certificate is attached. To check it, without a \
                     network:\n\nbiopsy verify-deletion certificate.json --receipt NAME.age.receipt.json\n\nThis address is forgotten, too."
            ),
        ),
        _ => return None,
    };
    Some((format!("{of}: {subject}"), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_customer_hears_of_three_things_and_the_vendor_of_what_needs_somebody() {
        let told = |reader| {
            [
                "upload.started",
                "upload.completed",
                "upload.stalled",
                "analysis.completed",
                "analysis.failed",
                "retention.warning",
                "case.deleted",
            ]
            .map(|event| words(reader, event, "4711", 10).is_some())
        };
        assert_eq!(told(Reader::Customer), [false, true, false, true, false, false, true]);
        assert_eq!(told(Reader::Vendor), [false, true, true, true, true, true, true]);
        let (subject, text) = words(Reader::Customer, "upload.completed", "4711", 10).unwrap();
        assert_eq!(subject, "case 4711: received");
        assert!(text.contains("10 bytes"));
    }
}
