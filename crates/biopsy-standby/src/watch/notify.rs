//! Tells systemd, where it started us, that we stand by and are well (sd_notify(3)).

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Whoever wants to know.
pub(super) struct Notify(Option<(UnixDatagram, SocketAddr)>);

impl Notify {
    /// The one that the environment names; nobody, else.
    pub(super) fn of_environment() -> Self {
        let open = || {
            let name = std::env::var_os("NOTIFY_SOCKET")?;
            let address = match name.as_bytes().split_first()? {
                (b'@', rest) => SocketAddr::from_abstract_name(rest),
                _ => SocketAddr::from_pathname(&name),
            };
            let socket = UnixDatagram::unbound().ok()?;
            // Whoever does not read what is said must not keep us from watching.
            socket.set_nonblocking(true).ok()?;
            Some((socket, address.ok()?))
        };
        Self(open())
    }

    /// It stands by.
    pub(super) fn ready(&self) {
        self.say("READY=1\nSTATUS=stands by");
    }

    /// It is well: it goes round.
    pub(super) fn is_well(&self) {
        self.say("WATCHDOG=1");
    }

    /// It finishes what it has begun.
    pub(super) fn stopping(&self) {
        self.say("STOPPING=1");
    }

    fn say(&self, text: &str) {
        if let Some((socket, address)) = &self.0 {
            // Whoever does not listen learns nothing.
            let _ = socket.send_to_addr(text.as_bytes(), address);
        }
    }
}
