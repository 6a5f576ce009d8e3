//! Servers over streamable HTTP, well and badly behaved.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod behaviour;
mod devices;
mod logins;
mod offers;
mod requests;
mod secrets;
mod sessions;
mod site;
mod support;
mod variants;
