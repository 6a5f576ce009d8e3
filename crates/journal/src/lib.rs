//! The journal on SQLite: threads, events, runs, plans, approvals, blobs.
//!
//! # Files
//! `pentad.db` with its `-wal` and `-shm`, `blobs/<2 digits>/<hash>`, `pentad.lock` (held while the database is created
//! or migrated) and, after a migration, `pentad-v<N>.db`, the copy from before it. The database says `application_id`
//! "Pntd" and in `user_version` how many migrations it has had (`schema/`).
//!
//! # Events
//! An event is stored as the canonical DAG-CBOR of [`pentad_model::Event`], together with its SHA-256 and the columns by
//! which it is found. `prev` in the bytes is the hash of the thread's previous bytes; the thread's record holds the
//! newest hash and the count, so a chain that was cut off shows as well. Bytes are never rewritten: an older `v` is
//! brought up to date when it is read, a newer one is refused. Promotions have a table of their own, written in the same
//! transaction and equal to what the `promoted` events say.
//!
//! # Writing
//! One thread writes (`writer`). Requests of class *crash* commit with `synchronous=NORMAL`: the process may die. As soon
//! as one of class *power* is in a batch, the batch commits with `synchronous=FULL`, which also syncs whatever was
//! written before it, the WAL being one file. Other processes may write the same database: each transaction begins
//! `IMMEDIATE` and reads afresh what it builds on.
//!
//! # Steps and waits
//! A run that a program executes has a journal of its own: steps, stored as the canonical DAG-CBOR of
//! [`pentad_model::step::Step`] and chained by `prev` as events are, but within their run. Their positions are drawn from
//! the same counter as those of events, so whoever follows the journal sees both in one order. Only the executor that has
//! a run appends to it, and it says which step it believes to be the last. What others have for a run is put at one of its
//! waits, from where one transaction moves it into the steps and deletes the wait: it is delivered once. An event that
//! comes before its wait is kept. When a run ends its record keeps the number and the hash of its last step, so steps that
//! were cut off show.
//!
//! # Executors
//! A journal that starts or claims a run enters itself into the list of executors; its number there, the epoch, stands at
//! each of its runs. Whoever takes over from an executor that is gone deletes its entry and takes the epoch off its runs,
//! from where on its writes are refused, should it live after all. The number is never given again. The end of a run is
//! one transaction with all that follows from it: the answer for its parent, the end of children that it alone waited for
//! and of ancestors that only waited for its end, and the step of the plan that it was evidence for (`settle`, `cancel`,
//! `evidence`).
//!
//! # Reading
//! A few threads read, each with a connection that cannot write, each request in one snapshot. A read that begins after
//! a write was answered sees it.

mod activity;
mod advance;
mod approvals;
mod attachments;
mod blobs;
mod cancel;
mod checkpoint;
mod codec;
mod connection;
mod events;
mod evidence;
mod executors;
mod fault;
mod kept;
mod marks;
mod migrate;
mod options;
mod plans;
mod record;
mod run_store;
mod runs;
mod search;
mod settle;
mod steps;
mod store;
mod threads;
mod verify;
mod waits;
mod workers;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use pentad_model::{RunId, ThreadId, Timestamp};
use pentad_program::{Durability, RunStore as _, StoreError};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot, watch};

use crate::blobs::Blobs;
use crate::connection::Purpose;
use crate::fault::Fault;
pub use crate::options::{JournalOptions, Owner};
use crate::workers::Jobs;
use crate::writer::{Known, Member, Scope, Writer};

/// How long `close` waits for what is queued.
const CLOSE_LIMIT: Duration = Duration::from_secs(30);
/// Events whose words one request collects before a search.
const WORDS_STRETCH: u64 = 1_000;

/// The journal of one home.
///
/// Clones share the same threads and connections. Call [`Journal::close`] in the end: it alone says whether everything
/// that was queued is written.
#[derive(Clone)]
pub struct Journal {
    inner: Arc<Inner>,
}

struct Inner {
    database: PathBuf,
    options: JournalOptions,
    blobs: Blobs,
    senders: RwLock<Option<Senders>>,
    known: Known,
    /// Whoever holds it looks for other processes' events on behalf of all who wait.
    looking: tokio::sync::Mutex<()>,
    /// The same for what gives executors something to do.
    stirring: tokio::sync::Mutex<()>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    written: Mutex<Option<oneshot::Receiver<Result<(), StoreError>>>>,
}

#[derive(Clone)]
struct Senders {
    writer: mpsc::Sender<Box<dyn Member>>,
    readers: Jobs<Reader>,
    files: Jobs<()>,
}

/// What a reading thread holds: its connection, opened when it is first needed.
struct Reader {
    database: PathBuf,
    busy: Duration,
    connection: Option<Connection>,
}

impl Reader {
    fn read<T>(&mut self, work: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T, Fault> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let connection = connection::open(&self.database, Purpose::Read, self.busy)?;
                connection::configure(&connection, Purpose::Read)?;
                connection
            }
        };
        connection.prepare_cached("BEGIN")?.execute([])?;
        let result = work(&connection);
        if !connection.is_autocommit() {
            connection.prepare_cached("ROLLBACK")?.execute([])?;
        }
        self.connection = Some(connection);
        result
    }
}

impl Journal {
    /// Opens the journal in a folder, creating or migrating it where needed. Nothing in it is repaired.
    ///
    /// # Errors
    /// Refuses a database of a newer build, a foreign or damaged file, and a folder that cannot be written.
    pub fn open(state_dir: &Path, options: JournalOptions) -> Result<Self, StoreError> {
        let database = state_dir.join("pentad.db");
        make_state_dir(state_dir)?;
        let unusable = |fault: Fault| match fault.into_store(&database) {
            StoreError::NotWritten(text) => StoreError::Unusable(format!(
                "the journal cannot be opened: {text}; make the folder writable, or point PENTAD_HOME to another one"
            )),
            other => other,
        };
        let connection =
            migrate::prepare(&database, migrate::MIGRATIONS, options.busy_timeout).map_err(unusable)?;
        if let Some(bytes) = options.max_database_bytes {
            limit_size(&connection, bytes).map_err(unusable)?;
        }
        let (head, _) = watch::channel(Some(activity::head(&connection).map_err(unusable)?));
        let (stirs, _) = watch::channel(Some(executors::stirs(&connection).map_err(unusable)?));
        let known = Known {
            head,
            stirs,
            epoch: Arc::default(),
        };
        let (written, done) = oneshot::channel();
        let (sender, mut requests) = mpsc::channel(options.queue.max(1));
        let no_threads = |e| StoreError::Unusable(format!("the journal's threads could not be started: {e}"));
        let clock = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .map_err(no_threads)?;
        let writer = Writer::new(connection, database.clone(), &options, known.clone(), clock);
        let thread = std::thread::Builder::new()
            .name("journal-writer".to_owned())
            .spawn(move || {
                let _unheard = written.send(writer.serve(&mut requests));
            })
            .map_err(no_threads)?;
        let (path, busy) = (database.clone(), options.busy_timeout);
        let (readers, reading) = workers::start(
            "journal-reader",
            options.readers,
            options.queue.max(1),
            move || Reader {
                database: path.clone(),
                busy,
                connection: None,
            },
        )?;
        let (files, filing) = workers::start("journal-files", 2, options.queue.max(1), || ())?;
        let threads = std::iter::once(thread).chain(reading).chain(filing).collect();
        // This process is the owner of what it writes, whoever it says owns its runs.
        let blobs = Blobs::new(state_dir, options.max_blob_bytes, Owner::current());
        blobs.sweep();
        let senders = Senders {
            writer: sender,
            readers,
            files,
        };
        Ok(Self {
            inner: Arc::new(Inner {
                database,
                options,
                blobs,
                senders: RwLock::new(Some(senders)),
                known,
                looking: tokio::sync::Mutex::new(()),
                stirring: tokio::sync::Mutex::new(()),
                threads: Mutex::new(threads),
                written: Mutex::new(Some(done)),
            }),
        })
    }

    /// Writes what is queued, empties the write-ahead log and ends the threads; later requests fail with `Closed`.
    /// A second call does nothing.
    ///
    /// # Errors
    /// Fails when that takes longer than half a minute, or when the database does not close.
    pub async fn close(&self) -> Result<(), StoreError> {
        let inner = &self.inner;
        drop(
            inner
                .senders
                .write()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        inner.known.head.send_replace(None);
        inner.known.stirs.send_replace(None);
        let threads = std::mem::take(&mut *inner.threads.lock().unwrap_or_else(PoisonError::into_inner));
        let written = inner
            .written
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(written) = written else {
            return Ok(());
        };
        let finished = async {
            let outcome = written.await.unwrap_or(Err(StoreError::Closed));
            let joined = tokio::task::spawn_blocking(move || {
                for thread in threads {
                    // A thread that panicked has nothing left to do.
                    let _panicked = thread.join();
                }
            });
            let _ended = joined.await;
            outcome
        };
        tokio::time::timeout(CLOSE_LIMIT, finished)
            .await
            .unwrap_or_else(|_| {
                Err(StoreError::Unusable(format!(
                    "{} could not be closed within {} s; what was answered is written",
                    self.inner.database.display(),
                    CLOSE_LIMIT.as_secs()
                )))
            })
    }

    /// Takes over from the executors whose process, as `is_alive` judges, is gone; this process's own runs are never
    /// touched. Of theirs, those that nobody resumes are settled as `lost`, the others queued, and each is noted once in
    /// its thread: a second call changes nothing. Returns what was lost.
    ///
    /// # Errors
    /// Fails when the journal cannot be written; then nothing was settled.
    pub async fn settle_interrupted<F>(&self, at: Timestamp, is_alive: F) -> Result<Vec<RunId>, StoreError>
    where
        F: Fn(&Owner) -> bool + Send + Sync + 'static,
    {
        let own = self.inner.options.owner.clone();
        let gone = self
            .read(move |connection| executors::gone(connection, &own, &is_alive))
            .await?;
        if gone.is_empty() {
            return Ok(Vec::new());
        }
        let retired = self.retire(gone, at).await?;
        Ok(retired.lost)
    }

    /// Makes the table of a thread's promoted tools again from its events.
    ///
    /// # Errors
    /// Fails when there is no such thread or the journal cannot be written.
    pub async fn rebuild_promoted(&self, thread: ThreadId) -> Result<(), StoreError> {
        self.write(Durability::Crash, move |scope| {
            events::rebuild_promoted(scope, thread)
        })
        .await
    }

    /// Returns the path of the database.
    #[must_use]
    pub fn database(&self) -> &Path {
        &self.inner.database
    }

    fn senders(&self) -> Result<Senders, StoreError> {
        let senders = self.inner.senders.read().unwrap_or_else(PoisonError::into_inner);
        senders.clone().ok_or(StoreError::Closed)
    }

    /// Has the writer do `work` in a transaction. Once queued it is done, even if the caller stops waiting.
    async fn write<T, W>(&self, durability: Durability, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: FnMut(&mut Scope<'_>) -> Result<T, Fault> + Send + 'static,
    {
        let (request, answer) = writer::request(self.inner.database.clone(), durability, work);
        let writer = self.senders()?.writer;
        writer.send(request).await.map_err(|_| StoreError::Closed)?;
        drop(writer);
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Has a reader do `work` in a snapshot.
    async fn read<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        let database = self.inner.database.clone();
        let readers = self.senders()?.readers;
        workers::run(&readers, move |reader: &mut Reader| {
            reader.read(work).map_err(|fault| fault.into_store(&database))
        })
        .await
    }

    /// Has a file thread do `work` on the blobs.
    async fn file<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: FnOnce(&Blobs) -> Result<T, StoreError> + Send + 'static,
    {
        let blobs = self.inner.blobs.clone();
        let files = self.senders()?.files;
        workers::run(&files, move |(): &mut ()| work(&blobs)).await
    }

    /// Waits until what `look` finds exceeds `after`, by this process's own writes or by others'. Only one of all who wait
    /// looks for what other processes wrote; it tells the others.
    async fn beyond(
        &self,
        after: u64,
        known: &watch::Sender<Option<u64>>,
        looking: &tokio::sync::Mutex<()>,
        poll: Duration,
        look: fn(&Connection) -> Result<u64, Fault>,
    ) -> Result<u64, StoreError> {
        let mut told = known.subscribe();
        let beyond = |mark: &Option<u64>| mark.is_none_or(|mark| mark > after);
        let looks = async {
            let _looking = looking.lock().await;
            loop {
                let mark = self.read(look).await?;
                known.send_if_modified(|known| writer::advance(known, mark));
                tokio::time::sleep(poll).await;
            }
        };
        tokio::select! {
            biased;
            mark = told.wait_for(beyond) => mark.map_err(|_| StoreError::Closed)?.ok_or(StoreError::Closed),
            failed = looks => failed,
        }
    }

    /// Lets the writer collect the words of what a search must see. A full disk makes a search old, not impossible.
    async fn catch_up(&self) -> Result<(), StoreError> {
        while self.read(search::index::is_behind).await? {
            let collected = self
                .write(Durability::Crash, |scope| {
                    search::index::collect(scope.connection, WORDS_STRETCH)
                })
                .await;
            match collected {
                Ok(true) => {}
                Ok(false) => break,
                Err(StoreError::Closed) => return Err(StoreError::Closed),
                Err(error) => {
                    tracing::warn!(%error, "a search does not see the newest events");
                    break;
                }
            }
        }
        Ok(())
    }
}

fn make_state_dir(state_dir: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(state_dir)
        .map_err(|e| {
            StoreError::Unusable(format!(
                "the folder {} cannot be created: {e}; point PENTAD_HOME to a folder that can be written",
                state_dir.display()
            ))
        })
}

fn limit_size(connection: &Connection, bytes: u64) -> Result<(), Fault> {
    let page: u64 =
        connection.pragma_query_value(None, "page_size", |row| row.get::<_, u32>(0).map(u64::from))?;
    let pages = (bytes / page.max(1)).clamp(1, u64::from(u32::MAX / 2));
    connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))?;
    Ok(())
}

#[cfg(test)]
mod tests;
