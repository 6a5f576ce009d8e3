//! Executing a program until it waits.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as TaskContext, Poll, Wake, Waker};

use pentad_model::run::RunError;
use pentad_program::{Ending, Pending};
use tokio::sync::Notify;

use crate::context::Shared;

/// Polls in a row after which others get their turn.
const TURN: u32 = 256;

/// A program in the middle of its execution.
pub(crate) struct Driver {
    future: Pending<Result<Ending, RunError>>,
    bell: Arc<Bell>,
}

/// Rung when the program has something to do.
struct Bell {
    rung: AtomicBool,
    heard: Notify,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        self.heard.notify_one();
    }
}

impl Driver {
    /// Returns a driver of a program that has not begun.
    pub(crate) fn new(future: Pending<Result<Ending, RunError>>) -> Self {
        let bell = Bell {
            rung: AtomicBool::new(false),
            heard: Notify::new(),
        };
        Self {
            future,
            bell: Arc::new(bell),
        }
    }

    /// Executes the program until it waits for a completion, or has ended. A panic is its end.
    pub(crate) async fn run_until_idle(&mut self, shared: &Shared) -> Option<Result<Ending, RunError>> {
        let waker = Waker::from(Arc::clone(&self.bell));
        let mut turn = 0;
        loop {
            self.bell.rung.store(false, Ordering::Release);
            if let Poll::Ready(ended) = self.poll(&waker) {
                return Some(ended);
            }
            if self.bell.rung.load(Ordering::Acquire) {
                turn += 1;
                if turn % TURN == 0 {
                    tokio::task::yield_now().await;
                }
                continue;
            }
            if !shared.is_busy() {
                return None;
            }
            self.bell.heard.notified().await;
        }
    }

    fn poll(&mut self, waker: &Waker) -> Poll<Result<Ending, RunError>> {
        let future = self.future.as_mut();
        let mut context = TaskContext::from_waker(waker);
        std::panic::catch_unwind(AssertUnwindSafe(|| future.poll(&mut context)))
            .unwrap_or_else(|panic| Poll::Ready(Err(panicked(panic.as_ref()))))
    }
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> RunError {
    let what = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a message".to_owned());
    RunError {
        code: "panic".to_owned(),
        message: format!("The program ended unexpectedly: {what}."),
    }
}
