//! The few calls of the kernel that no safe wrapper offers.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::process::Pid;

/// Which side of a fork goes on here.
pub(crate) enum Forked {
    Parent(Pid),
    Child,
}

/// Forks this process, which must have one thread only.
pub(crate) fn fork() -> io::Result<Forked> {
    // SAFETY: only the spawner and its wardens call this. They have exactly one thread (the spawner starts
    // before any runtime exists), so no lock can be held by a thread that the child does not have.
    match unsafe { libc::fork() } {
        0 => Ok(Forked::Child),
        pid => Pid::from_raw(pid)
            .filter(|_| pid > 0)
            .map(Forked::Parent)
            .ok_or_else(io::Error::last_os_error),
    }
}

/// Ends this process at once: no destructors, no buffers flushed twice.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` takes any number and does not return.
    unsafe { libc::_exit(code) }
}

/// A null-terminated array of pointers to C strings, as `execve` wants it.
pub(crate) struct PointerArray<'a> {
    pointers: Vec<*const libc::c_char>,
    _strings: std::marker::PhantomData<&'a CString>,
}

impl<'a> PointerArray<'a> {
    pub(crate) fn new(strings: &'a [CString]) -> Self {
        let pointers = strings
            .iter()
            .map(|text| text.as_ptr())
            .chain([std::ptr::null()])
            .collect();
        Self {
            pointers,
            _strings: std::marker::PhantomData,
        }
    }
}

/// Replaces this process by a program; returns only when that failed.
pub(crate) fn exec(path: &CStr, argv: &PointerArray<'_>, env: &PointerArray<'_>) -> io::Error {
    // SAFETY: both arrays end with a null pointer and borrow their strings, which outlive this call.
    unsafe { libc::execve(path.as_ptr(), argv.pointers.as_ptr(), env.pointers.as_ptr()) };
    io::Error::last_os_error()
}

/// Makes `number` (0, 1 or 2) refer to what `fd` refers to, without close-on-exec.
pub(crate) fn set_stdio(fd: BorrowedFd<'_>, number: i32) -> io::Result<()> {
    debug_assert!((0..=2).contains(&number) && fd.as_raw_fd() > 2);
    // SAFETY: the numbers 0 to 2 are owned by nobody as an `OwnedFd` in the spawner and its children.
    match unsafe { libc::dup2(fd.as_raw_fd(), number) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Closes every descriptor from `first` to `last`.
///
/// Only for a process just forked, which never uses the `OwnedFd`s of its parent that are closed here.
pub(crate) fn close_range(first: i32, last: i32) -> io::Result<()> {
    if first > last {
        return Ok(());
    }
    #[cfg(target_os = "linux")]
    {
        let (low, high) = (first.cast_unsigned(), last.cast_unsigned());
        // SAFETY: closing descriptors touches no memory; the caller never uses their owners again.
        match unsafe { libc::syscall(libc::SYS_close_range, low, high, 0) } {
            0 => return Ok(()),
            _ if io::Error::last_os_error().raw_os_error() != Some(libc::ENOSYS) => {
                return Err(io::Error::last_os_error());
            }
            _ => {}
        }
    }
    // SAFETY: `sysconf` reads a number; closing descriptors touches no memory.
    unsafe {
        let limit = i32::try_from(libc::sysconf(libc::_SC_OPEN_MAX))
            .unwrap_or(1024)
            .min(65_536);
        for fd in first..=last.min(limit) {
            libc::close(fd);
        }
    }
    Ok(())
}
