//! Why something was not sent.

use std::io;
use std::path::PathBuf;

use crate::signed::SignedError;

/// Why something was not sent. The sealed file is kept in each case.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The lab knows no such request, or it is over; it does not say which.
    #[error(
        "the lab does not take it: there is no such request, or it is over, used by somebody else, or revoked"
    )]
    Refused,
    /// It is too large.
    #[error("the lab takes at most {most} bytes for this request, and it has {bytes}")]
    TooLarge {
        /// How large it is.
        bytes: u64,
        /// How large it may be.
        most: u64,
    },
    /// The lab answers something that it should not.
    #[error("the lab answered {status} to {call}: {words}")]
    Answer {
        /// Which call.
        call: &'static str,
        /// The status.
        status: u16,
        /// The first words of the answer.
        words: String,
    },
    /// Something between here and the lab lets no piece through, neither as PATCH nor as POST.
    #[error(
        "something between here and the lab lets no piece through: it answered {status} to PATCH and to POST: {words}"
    )]
    Blocked {
        /// Its last answer.
        status: u16,
        /// The first words of that.
        words: String,
    },
    /// There is no answer for too long.
    #[error("the lab cannot be reached: {0}")]
    Unreachable(String),
    /// A document of the lab is not to be believed.
    #[error("what the lab says cannot be believed ({what})")]
    NotBelieved {
        /// Of what.
        what: &'static str,
        /// Why not.
        source: SignedError,
    },
    /// The keys are not those of the link.
    #[error(
        "the request is for other keys than the link says: do not send anything, and ask whoever gave you the link"
    )]
    OtherReaders,
    /// The receipt is for something else.
    #[error("the receipt is for other bytes than were sent")]
    OtherReceipt,
    /// The sealed file is not what it was.
    #[error("`{}` was changed since it was sealed", .0.display())]
    Changed(PathBuf),
    /// The sealed file, or what is known of it, cannot be read or written.
    #[error("cannot read or write `{}`", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Whoever watches asked to stop.
    #[error("stopped")]
    Stopped,
}
