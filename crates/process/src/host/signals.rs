//! Signals as one readable descriptor and a set of flags.
//!
//! Self-pipe instead of `signalfd`, because that one exists on Linux only.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};

use rustix::io::ioctl_fionbio;

use crate::channel;

static WAKE: AtomicI32 = AtomicI32::new(-1);
static CAUGHT: AtomicU8 = AtomicU8::new(0);

const CHILD: u8 = 1;
const END: u8 = 2;
const FORCE: u8 = 4;

/// The signals that are caught, and what each means.
const MEANINGS: [(libc::c_int, u8); 5] = [
    (libc::SIGCHLD, CHILD),
    (libc::SIGTERM, END),
    (libc::SIGHUP, END),
    (libc::SIGINT, END),
    (libc::SIGUSR1, FORCE),
];

extern "C" fn on_signal(number: libc::c_int) {
    let meaning = MEANINGS
        .iter()
        .find(|(signal, _)| *signal == number)
        .map_or(0, |(_, meaning)| *meaning);
    CAUGHT.fetch_or(meaning, Ordering::SeqCst);
    // SAFETY: `write` is async-signal-safe and reads one byte of a static; errno is put back because the
    // interrupted code may be about to read it.
    unsafe {
        let errno = errno_place();
        let before = *errno;
        libc::write(WAKE.load(Ordering::SeqCst), ptr::from_ref(&0u8).cast(), 1);
        *errno = before;
    }
}

/// Returns where this thread's errno lives.
unsafe fn errno_place() -> *mut libc::c_int {
    // SAFETY: both calls take nothing and return a pointer that is valid for this thread's life.
    #[cfg(target_os = "linux")]
    unsafe {
        libc::__errno_location()
    }
    #[cfg(any(target_os = "macos", target_os = "ios", target_os = "freebsd"))]
    unsafe {
        libc::__error()
    }
}

/// What was signalled since the last look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caught {
    /// SIGTERM, SIGHUP or SIGINT: end the tree, with its grace.
    pub(crate) end: bool,
    /// SIGUSR1: end the tree without grace.
    pub(crate) force: bool,
}

/// The installed handlers and the pipe that they write to.
#[derive(Debug)]
pub(crate) struct Signals {
    read: OwnedFd,
    _write: OwnedFd,
}

impl Signals {
    /// Installs the handlers of this process and forgets what was caught before.
    pub(crate) fn install() -> io::Result<Self> {
        let (read, write) = channel::pipe()?;
        ioctl_fionbio(&read, true)?;
        ioctl_fionbio(&write, true)?;
        WAKE.store(write.as_raw_fd(), Ordering::SeqCst);
        CAUGHT.store(0, Ordering::SeqCst);
        for (signal, _) in MEANINGS {
            let handler = on_signal as extern "C" fn(libc::c_int);
            set_action(signal, handler as libc::sighandler_t)?;
        }
        set_action(libc::SIGPIPE, libc::SIG_IGN)?;
        Ok(Self { read, _write: write })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }

    /// Empties the pipe and returns what was caught.
    pub(crate) fn take(&self) -> Caught {
        let mut bytes = [0u8; 64];
        while matches!(rustix::io::read(&self.read, &mut bytes[..]), Ok(count) if count == bytes.len()) {}
        let caught = CAUGHT.swap(0, Ordering::SeqCst);
        Caught {
            end: caught & END != 0,
            force: caught & FORCE != 0,
        }
    }
}

fn set_action(signal: libc::c_int, handler: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: a zeroed `sigaction` is valid; the handler is either a constant or `on_signal`, which only
    // does async-signal-safe things.
    let result = unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_RESTART | libc::SA_NOCLDSTOP;
        libc::sigaction(signal, &raw const action, ptr::null_mut())
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Holds back every signal, for the moments around a fork.
///
/// Without it a handler could run in the child and write to the parent's pipe.
pub(crate) fn block_all() {
    set_mask(libc::SIG_SETMASK, true);
}

/// Lets every signal through.
pub(crate) fn unblock_all() {
    set_mask(libc::SIG_SETMASK, false);
}

fn set_mask(how: libc::c_int, full: bool) {
    // SAFETY: the set is filled before it is used; none of these calls can fail with these arguments.
    unsafe {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        if full {
            libc::sigfillset(set.as_mut_ptr())
        } else {
            libc::sigemptyset(set.as_mut_ptr())
        };
        libc::sigprocmask(how, set.as_ptr(), ptr::null_mut());
    }
}

/// Gives every signal its default meaning, for a command about to run.
///
/// Ignored signals pass through exec; a command that inherits an ignored SIGPIPE never learns that its
/// reader is gone.
pub(crate) fn reset_all() {
    for signal in 1..=64 {
        let _ = set_action(signal, libc::SIG_DFL);
    }
    unblock_all();
}
