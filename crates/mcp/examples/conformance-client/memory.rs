//! Logins that end with the process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use pentad_mcp::{KeptLogin, TokenStore, TokenStoreError};

/// Keeps logins in memory.
#[derive(Debug, Clone, Default)]
pub struct MemoryTokens(Arc<Mutex<HashMap<String, KeptLogin>>>);

impl MemoryTokens {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, KeptLogin>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl TokenStore for MemoryTokens {
    async fn load(&self, server: &str) -> Result<Option<KeptLogin>, TokenStoreError> {
        Ok(self.lock().get(server).cloned())
    }

    async fn save(&self, server: &str, login: &KeptLogin) -> Result<(), TokenStoreError> {
        self.lock().insert(server.to_owned(), login.clone());
        Ok(())
    }

    async fn remove(&self, server: &str) -> Result<bool, TokenStoreError> {
        Ok(self.lock().remove(server).is_some())
    }

    async fn exclusive(&self, _server: &str) -> Result<Box<dyn Send>, TokenStoreError> {
        Ok(Box::new(()))
    }
}
