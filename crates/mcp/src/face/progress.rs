//! Progress notifications to a client that asked for them.

use std::time::Duration;

use pentad_program::Progress;
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::Peer;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

/// What a heartbeat adds, because the protocol wants each value to exceed the one before.
const STEP: f64 = 1e-6;

/// Reports what the act reports, and a heartbeat whenever nothing was reported for `every`.
///
/// Clients end a call that is silent for too long and then often repeat it while it still runs; a heartbeat is what
/// keeps the two in step. Returns when the connection is gone.
pub async fn forward(
    peer: &Peer<RoleServer>,
    token: ProgressToken,
    mut reports: mpsc::Receiver<Progress>,
    every: Duration,
) {
    let start = Instant::now();
    let mut beat = tokio::time::interval_at(start + every, every);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = Report {
        done: 0.0,
        total: None,
    };
    let mut heard = true;
    loop {
        let param = tokio::select! {
            report = reports.recv(), if heard => match report {
                Some(report) => {
                    beat.reset();
                    last.take(&token, report)
                }
                None => {
                    heard = false;
                    continue;
                }
            },
            now = beat.tick() => last.beat(&token, now - start),
        };
        if peer.notify_progress(param).await.is_err() {
            return;
        }
    }
}

/// The state of what was last reported.
struct Report {
    done: f64,
    total: Option<f64>,
}

impl Report {
    fn take(&mut self, token: &ProgressToken, report: Progress) -> ProgressNotificationParam {
        self.done = if report.done.is_finite() && report.done > self.done {
            report.done
        } else {
            self.done + STEP
        };
        self.total = report.total.filter(|total| total.is_finite());
        self.param(token, report.message)
    }

    fn beat(&mut self, token: &ProgressToken, elapsed: Duration) -> ProgressNotificationParam {
        self.done += STEP;
        self.param(token, Some(format!("running for {} s", elapsed.as_secs())))
    }

    fn param(&self, token: &ProgressToken, message: Option<String>) -> ProgressNotificationParam {
        let mut param = ProgressNotificationParam::new(token.clone(), self.done);
        param.total = self.total;
        param.message = message;
        param
    }
}
