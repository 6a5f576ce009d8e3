//! Times in which a server waits for a person: its silence is not its own then.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The forms of one call that are open, and when the last one was closed.
#[derive(Debug, Default)]
pub struct Pauses(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    open: usize,
    ended: Option<Instant>,
}

/// One open form; closed when dropped.
#[derive(Debug)]
pub struct Pause(Arc<Pauses>);

impl Pauses {
    /// Notes that a form is open from now on.
    pub fn begin(self: &Arc<Self>) -> Pause {
        self.lock().open += 1;
        Pause(Arc::clone(self))
    }

    /// Returns until when a server may be silent that has been so for `idle` by `now`, if a person had to be waited for in
    /// this time.
    pub fn excuse(&self, now: Instant, idle: Duration) -> Option<Instant> {
        let state = self.lock();
        if state.open > 0 {
            return Some(now + idle);
        }
        state.ended.map(|ended| ended + idle).filter(|until| *until > now)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.open = state.open.saturating_sub(1);
        state.ended = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_from_the_end_of_the_last_form() {
        let pauses = Arc::<Pauses>::default();
        let (begun, idle) = (Instant::now(), Duration::from_secs(10));
        assert_eq!(pauses.excuse(begun, idle), None);
        let (one, other) = (pauses.begin(), pauses.begin());
        drop(one);
        let later = begun + Duration::from_secs(3600);
        assert_eq!(pauses.excuse(later, idle), Some(later + idle));
        drop(other);
        let until = pauses.excuse(Instant::now(), idle).unwrap();
        assert!(until >= begun + idle && until <= Instant::now() + idle);
        assert_eq!(pauses.excuse(until, idle), None);
    }
}
