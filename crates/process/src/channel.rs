//! Pipes and sockets that no program started elsewhere inherits.
//!
//! Linux makes them close-on-exec in one step. Elsewhere that is a second step; the only exec of the client
//! is that of its spawner, which closes what it does not know.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, socketpair};

/// How messages are sent: a peer that is gone is an error, not a signal.
#[cfg(target_os = "linux")]
pub(crate) const SEND: SendFlags = SendFlags::NOSIGNAL;
/// How messages are sent; SIGPIPE is ignored in the client, the spawner and the wardens.
#[cfg(not(target_os = "linux"))]
pub(crate) const SEND: SendFlags = SendFlags::empty();

/// Returns the reading and the writing end of a new pipe.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    #[cfg(target_os = "linux")]
    {
        Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
    }
    #[cfg(not(target_os = "linux"))]
    {
        close_on_exec(rustix::pipe::pipe()?)
    }
}

/// Returns two joined stream sockets.
pub(crate) fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    #[cfg(target_os = "linux")]
    {
        let flags = SocketFlags::CLOEXEC;
        Ok(socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let flags = SocketFlags::empty();
        close_on_exec(socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
    }
}

#[cfg(not(target_os = "linux"))]
fn close_on_exec(ends: (OwnedFd, OwnedFd)) -> io::Result<(OwnedFd, OwnedFd)> {
    for end in [&ends.0, &ends.1] {
        rustix::io::fcntl_setfd(end, rustix::io::FdFlags::CLOEXEC)?;
    }
    Ok(ends)
}
