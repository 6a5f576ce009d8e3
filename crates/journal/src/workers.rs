//! Threads that read the database and the blobs, so that nothing waits behind a write.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use pentad_program::StoreError;
use tokio::sync::{mpsc, oneshot};

/// A piece of work on a thread's own state.
pub(crate) type Job<S> = Box<dyn FnOnce(&mut S) + Send>;

/// Where jobs are sent.
pub(crate) type Jobs<S> = mpsc::Sender<Job<S>>;

/// Starts `count` threads that share one bounded queue. They end when all senders are gone.
pub(crate) fn start<S, N>(
    name: &'static str,
    count: usize,
    queue: usize,
    new_state: N,
) -> Result<(Jobs<S>, Vec<JoinHandle<()>>), StoreError>
where
    S: 'static,
    N: Fn() -> S + Clone + Send + 'static,
{
    let (jobs, waiting) = mpsc::channel::<Job<S>>(queue);
    let waiting = Arc::new(Mutex::new(waiting));
    let mut threads = Vec::with_capacity(count);
    for number in 0..count.max(1) {
        let (waiting, new_state) = (Arc::clone(&waiting), new_state.clone());
        let thread = std::thread::Builder::new()
            .name(format!("{name}-{number}"))
            .spawn(move || {
                let mut state = new_state();
                loop {
                    let job = waiting
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .blocking_recv();
                    let Some(job) = job else { break };
                    job(&mut state);
                }
            })
            .map_err(|e| StoreError::Unusable(format!("the journal's threads could not be started: {e}")))?;
        threads.push(thread);
    }
    Ok((jobs, threads))
}

/// Runs a job on one of the threads and waits for its result. A job whose caller is gone is not begun.
pub(crate) async fn run<S, T, W>(jobs: &Jobs<S>, work: W) -> Result<T, StoreError>
where
    S: 'static,
    T: Send + 'static,
    W: FnOnce(&mut S) -> Result<T, StoreError> + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    let job: Job<S> = Box::new(move |state| {
        if !reply.is_closed() {
            let _unheard = reply.send(work(state));
        }
    });
    jobs.send(job).await.map_err(|_| StoreError::Closed)?;
    answer.await.map_err(|_| StoreError::Closed)?
}
