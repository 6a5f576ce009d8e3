//! Descriptors of a process that was just forked.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::fcntl_dupfd_cloexec;

use super::sys;

/// Closes everything above the standard three, apart from these.
///
/// A warden inherits the spawner's control sockets of all other trees. Were it to keep them, the client
/// would not see the end of those trees.
pub(crate) fn close_all_except(keep: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut numbers: Vec<i32> = keep.iter().map(AsRawFd::as_raw_fd).collect();
    numbers.sort_unstable();
    let mut next = 3;
    for number in numbers {
        sys::close_range(next, number - 1)?;
        next = next.max(number + 1);
    }
    sys::close_range(next, i32::MAX)
}

/// Points the standard three at `/dev/null`.
pub(crate) fn stdio_to_null() -> io::Result<()> {
    let null = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    let null = above_stdio(null.into())?;
    (0..=2).try_for_each(|number| sys::set_stdio(std::os::fd::AsFd::as_fd(&null), number))
}

/// Returns the descriptor, moved above the standard three if it was among them.
pub(crate) fn above_stdio(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() > 2 {
        Ok(fd)
    } else {
        Ok(fcntl_dupfd_cloexec(&fd, 3)?)
    }
}
