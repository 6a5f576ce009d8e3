//! Lines from the terminal, one at a time, until nobody waits for them any more.

use std::io::Write as _;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio_util::sync::CancellationToken;

use super::dialogue::Lines;

/// How often a wait looks whether it is still wanted.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
/// Longest line that is taken.
const MAX_LINE: usize = 64 << 10;

/// Standard input and stderr of this process.
pub struct Tty {
    over: CancellationToken,
}

impl Tty {
    /// Returns the terminal until `over` is cancelled.
    pub const fn new(over: CancellationToken) -> Self {
        Self { over }
    }

    /// Waits for one line; the terminal hands them over whole.
    fn line(&self) -> Option<String> {
        let stdin = std::io::stdin();
        let mut line = Vec::new();
        let mut part = [0_u8; 4096];
        loop {
            if self.over.is_cancelled() {
                return None;
            }
            let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
            match poll(&mut fds, Some(&LOOK)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(_) => return None,
            }
            match rustix::io::read(&stdin, &mut part[..]) {
                Ok(0) => return None,
                Ok(count) => line.extend_from_slice(part.get(..count).unwrap_or_default()),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return None,
            }
            if line.ends_with(b"\n") || line.len() > MAX_LINE {
                return Some(
                    String::from_utf8_lossy(&line)
                        .trim_end_matches(['\n', '\r'])
                        .to_owned(),
                );
            }
        }
    }
}

/// Puts the terminal back whatever happens.
struct Hidden(Option<Termios>);

impl Hidden {
    fn begin() -> Self {
        let stdin = std::io::stdin();
        let before = tcgetattr(&stdin).ok();
        if let Some(before) = &before {
            let mut silent = before.clone();
            silent.local_modes.remove(LocalModes::ECHO);
            let _ = tcsetattr(&stdin, OptionalActions::Now, &silent);
        }
        Self(before)
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}

impl Lines for Tty {
    fn say(&mut self, text: &str) {
        let mut err = std::io::stderr().lock();
        // A terminal that cannot be written to cannot be read from either.
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }

    fn read(&mut self, prompt: &str, hidden: bool) -> Option<String> {
        // Before the prompt: what is typed at its sight must not be shown.
        let echo = hidden.then(Hidden::begin);
        self.say(prompt);
        let line = self.line();
        drop(echo);
        if hidden || line.is_none() {
            self.say("\n");
        }
        line
    }
}
