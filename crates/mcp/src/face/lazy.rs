//! The engine behind a face, opened by the first call that needs it.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use pentad_model::Refusal;
use pentad_program::Verbs;
use tokio::sync::OnceCell;

type Open = dyn Fn() -> BoxFuture<'static, Result<Arc<dyn Verbs>, Refusal>> + Send + Sync;

/// Verbs that may still have to be opened.
///
/// A client waits for `initialize` and `tools/list` with every start; opening a journal or finding a keeper must not be
/// part of that. A failure to open is told to the call that needed it, and the next call tries again.
#[derive(Clone)]
pub struct LazyVerbs {
    cell: Arc<OnceCell<Arc<dyn Verbs>>>,
    open: Arc<Open>,
}

impl LazyVerbs {
    /// Wraps verbs that are open.
    #[must_use]
    pub fn ready(verbs: Arc<dyn Verbs>) -> Self {
        Self::opened_by(move || {
            let verbs = Arc::clone(&verbs);
            Box::pin(std::future::ready(Ok(verbs)))
        })
    }

    /// Opens with `open` when the first call comes.
    pub fn opened_by(
        open: impl Fn() -> BoxFuture<'static, Result<Arc<dyn Verbs>, Refusal>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            cell: Arc::new(OnceCell::new()),
            open: Arc::new(open),
        }
    }

    /// Returns the verbs, opening them if nobody has.
    ///
    /// # Errors
    /// Returns why they could not be opened.
    pub async fn get(&self) -> Result<Arc<dyn Verbs>, Refusal> {
        self.cell.get_or_try_init(|| (self.open)()).await.map(Arc::clone)
    }
}

impl fmt::Debug for LazyVerbs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazyVerbs")
            .field("open", &self.cell.initialized())
            .finish()
    }
}
