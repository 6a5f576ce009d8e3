//! `~/memory/…`: an agent's own files.

mod fetch;
mod read;
mod write;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use cap_std::fs::Dir;
use pentad_model::Name;
use pentad_model::address::{Address, Family, MemoryPath};
use pentad_model::outcome::Product;
use pentad_model::refusal::Refusal;
use pentad_model::verb::{Read, Write};
use pentad_program::Store;

use super::misdirected;
use crate::family::AddressFamily;
use crate::handle;
use crate::limits::SpaceLimits;
use crate::scene::Scene;
use crate::web::WebClient;

/// The folder with one folder of memory per agent.
#[derive(Debug, Clone)]
pub(crate) struct MemoryRoot {
    path: Arc<PathBuf>,
    writing: Arc<Mutex<()>>,
}

impl MemoryRoot {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path: Arc::new(path),
            writing: Arc::new(Mutex::new(())),
        }
    }

    /// Returns the folder of one agent's memory.
    pub(crate) fn folder(&self, agent: &Name) -> PathBuf {
        self.path.join(agent.as_str())
    }

    /// Opens an agent's memory; `None` when it has none yet.
    fn open(&self, agent: &Name) -> io::Result<Option<Dir>> {
        let opened =
            handle::open_root(&self.path).and_then(|root| handle::descend(&root, &[agent.as_str()], false));
        match opened {
            Ok(dir) => Ok(Some(dir)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens an agent's memory, making it when it is not there.
    fn create(&self, agent: &Name) -> io::Result<Dir> {
        create_private(&self.path)?;
        handle::descend(&handle::open_root(&self.path)?, &[agent.as_str()], true)
    }

    /// Waits for one's turn to change a memory, so that two writers cannot both take the last room.
    fn lock(&self) -> MutexGuard<'_, ()> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the bytes that an agent's memory holds.
    pub(crate) fn usage(&self, agent: &Name) -> io::Result<u64> {
        self.open(agent)?.map_or(Ok(0), |dir| handle::usage(&dir))
    }
}

fn create_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

/// Serves `~/memory/…`.
pub(crate) struct MemoryFamily {
    root: MemoryRoot,
    store: Arc<dyn Store>,
    web: Arc<WebClient>,
    limits: SpaceLimits,
}

impl MemoryFamily {
    pub(crate) const fn new(
        root: MemoryRoot,
        store: Arc<dyn Store>,
        web: Arc<WebClient>,
        limits: SpaceLimits,
    ) -> Self {
        Self {
            root,
            store,
            web,
            limits,
        }
    }
}

#[async_trait]
impl AddressFamily for MemoryFamily {
    fn families(&self) -> &'static [Family] {
        &[Family::Memory]
    }

    async fn read(&self, scene: &Scene, read: &Read) -> Result<Product, Refusal> {
        let path = path_of(&read.address)?;
        read::read(self, scene, path, &read.options).await
    }

    async fn write(&self, scene: &Scene, write: &Write) -> Result<Product, Refusal> {
        let path = path_of(&write.address)?;
        Box::pin(write::write(self, scene, path, write)).await
    }
}

fn path_of(address: &Address) -> Result<&MemoryPath, Refusal> {
    match address {
        Address::Memory(path) => Ok(path),
        other => Err(misdirected(other)),
    }
}

/// Returns the address of a path in the memory.
fn address_of(path: &str) -> String {
    format!("~/memory/{path}")
}
