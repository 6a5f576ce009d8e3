//! Forms of connected servers, filled in at the terminal of whoever called.
//!
//! The words of a form are the server's: they are shown, quoted, with control characters visible, and never obeyed.

mod dialogue;
mod tty;

use std::sync::Arc;

use async_trait::async_trait;
use pentad_model::approval::Approval;
use pentad_model::{Form, FormAnswer};
use pentad_program::{Answer, Asker};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

pub use self::dialogue::{dialogue, kind_words, quoted};
pub use self::tty::Tty;

/// A wish to have the terminal for oneself.
#[derive(Debug)]
pub struct Quiet {
    /// Told once nothing else is drawn.
    pub ready: oneshot::Sender<()>,
    /// Is cancelled when the terminal is free again.
    pub over: CancellationToken,
}

/// Asks the person at the terminal of this process.
#[derive(Debug)]
pub struct TerminalAsker {
    quiet: mpsc::Sender<Quiet>,
}

impl TerminalAsker {
    /// Returns an asker, and what it wants of whoever draws on the terminal.
    pub fn new() -> (Arc<Self>, mpsc::Receiver<Quiet>) {
        let (quiet, wishes) = mpsc::channel(1);
        (Arc::new(Self { quiet }), wishes)
    }
}

#[async_trait]
impl Asker for TerminalAsker {
    /// A person's approvals are answered by a command of their own.
    async fn ask(&self, _approval: &Approval) -> Answer {
        Answer::Unanswered
    }

    fn reaches_a_person(&self) -> bool {
        false
    }

    async fn fill(&self, form: &Form) -> FormAnswer {
        let ending = || FormAnswer::unanswered("the command is ending");
        let over = CancellationToken::new();
        // Ends the dialogue when nobody waits for it any more, and frees the terminal in any case.
        let _over = over.clone().drop_guard();
        let (ready, silent) = oneshot::channel();
        let wish = Quiet {
            ready,
            over: over.clone(),
        };
        if self.quiet.send(wish).await.is_err() || silent.await.is_err() {
            return ending();
        }
        let form = form.clone();
        let asking = tokio::task::spawn_blocking(move || dialogue(&form, &mut Tty::new(over)));
        asking.await.unwrap_or_else(|_| ending())
    }
}
