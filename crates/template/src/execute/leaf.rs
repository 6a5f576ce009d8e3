//! Runs one command.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::flow::Flow;
use super::{ExecuteError, Run};
use crate::frame::Frame;
use crate::launch::{Input, LaunchRequest};
use crate::tree::CommandLine;
use crate::words::quote_for_display;

pub(super) struct Leaf<'a> {
    pub(super) line: &'a CommandLine,
    pub(super) timeout: Option<Duration>,
    pub(super) attempts: u32,
    pub(super) label: Option<&'a str>,
}

impl<'a> Run<'a> {
    /// Runs a command, again at once while attempts are left; only the last attempt counts.
    pub(super) async fn leaf(
        self,
        leaf: Leaf<'a>,
        frame: &Frame,
        input: Input,
        cancel: &CancellationToken,
    ) -> Result<Flow, ExecuteError> {
        let words = leaf.line.expand(&frame.scope(self.given))?;
        let command = words
            .iter()
            .map(|word| quote_for_display(word))
            .collect::<Vec<_>>()
            .join(" ");
        let argv = self.executor.site.argv(words)?;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let remaining = frame
                .deadline
                .map(|deadline| deadline.saturating_sub(self.executor.clock.now()));
            if remaining == Some(Duration::ZERO) {
                return Ok(Flow::timed_out(String::new()));
            }
            let request = LaunchRequest {
                argv: argv.clone(),
                stdin: input.clone(),
                timeout: [leaf.timeout, remaining].into_iter().flatten().min(),
                label: leaf.label.map(str::to_owned),
            };
            let launched = self.executor.launcher.launch(request, cancel).await;
            if cancel.is_cancelled() {
                return Err(ExecuteError::Canceled);
            }
            let mut flow = Flow::of_launch(launched, command.clone());
            let over = frame
                .deadline
                .is_some_and(|deadline| self.executor.clock.now() >= deadline);
            flow.out_of_time = flow.killed && over;
            if !flow.failed() || flow.out_of_time || attempt >= leaf.attempts {
                return Ok(flow);
            }
        }
    }
}
