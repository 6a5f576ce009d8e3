//! The address on this machine that a browser is sent back to after a login.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// The path of the redirect.
const PATH: &str = "/callback";
/// Longest head of a request.
const MAX_HEAD: usize = 16 << 10;
/// How long one browser connection may take.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);

/// Why no redirect came.
#[derive(Debug, thiserror::Error)]
pub enum RedirectError {
    /// The port cannot be had.
    #[error("the port {port} for the way back from the browser cannot be had: {source}")]
    Bind {
        /// The port; 0 stands for any.
        port: u16,
        /// What the system said.
        source: io::Error,
    },
    /// Nobody came back in time.
    #[error("nobody came back from the browser within {0} s")]
    TimedOut(u64),
}

/// Listens on loopback for the one redirect of a login.
#[derive(Debug)]
pub struct LoopbackRedirect {
    listener: TcpListener,
    address: SocketAddr,
}

impl LoopbackRedirect {
    /// Begins to listen, at a port that a person configured or any free one.
    ///
    /// # Errors
    /// Fails when the port cannot be had.
    pub async fn bind(port: Option<u16>) -> Result<Self, RedirectError> {
        let port = port.unwrap_or(0);
        let bound = async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
            let address = listener.local_addr()?;
            Ok(Self { listener, address })
        };
        bound.await.map_err(|source| RedirectError::Bind { port, source })
    }

    /// Returns the address to register and to be sent back to.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Waits for the redirect and returns its whole address. Other requests, such as those for an icon, are answered
    /// with 404 and do not end the wait.
    ///
    /// # Errors
    /// Fails when nobody comes back within `limit`.
    pub async fn wait(self, limit: Duration) -> Result<String, RedirectError> {
        let waiting = async {
            loop {
                let Ok((stream, _)) = self.listener.accept().await else {
                    // Out of descriptors, for example; the wait has its own limit.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                };
                if let Ok(Some(target)) = timeout(REQUEST_LIMIT, answer(stream)).await {
                    return format!("http://{}{target}", self.address);
                }
            }
        };
        timeout(limit, waiting)
            .await
            .map_err(|_| RedirectError::TimedOut(limit.as_secs()))
    }
}

/// Answers one request and returns its target if it is the redirect.
async fn answer(mut stream: TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < MAX_HEAD {
        if stream.read_buf(&mut head).await.ok()? == 0 {
            break;
        }
    }
    let head = String::from_utf8_lossy(&head);
    let mut words = head.lines().next()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let path = target.split('?').next().unwrap_or_default();
    let is_redirect = method == "GET" && path == PATH && target.contains('?');
    let (status, text) = if is_redirect {
        (
            "200 OK",
            "Pentad has the answer. You can close this page and go back to the terminal.",
        )
    } else {
        ("404 Not Found", "There is nothing here.")
    };
    let page = format!("<!doctype html><meta charset=utf-8><title>Pentad</title><p>{text}</p>");
    let reply = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n{page}",
        page.len()
    );
    // The person may have closed the page already; the answer counts all the same.
    let _ = stream.write_all(reply.as_bytes()).await;
    let _ = stream.shutdown().await;
    is_redirect.then(|| target.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn get(uri: &str, target: &str) -> String {
        let address = uri.trim_start_matches("http://").trim_end_matches(PATH);
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await.unwrap();
        reply
    }

    #[tokio::test]
    async fn only_the_redirect_itself_ends_the_wait() {
        let redirect = LoopbackRedirect::bind(None).await.unwrap();
        let uri = redirect.uri();
        let waiting = tokio::spawn(redirect.wait(Duration::from_secs(20)));
        assert!(get(&uri, "/favicon.ico").await.starts_with("HTTP/1.1 404"));
        assert!(get(&uri, "/callback").await.starts_with("HTTP/1.1 404"));
        assert!(
            get(&uri, "/callback?code=1&state=2")
                .await
                .starts_with("HTTP/1.1 200")
        );
        assert_eq!(waiting.await.unwrap().unwrap(), format!("{uri}?code=1&state=2"));
    }

    #[tokio::test]
    async fn nobody_is_waited_for_for_ever() {
        let redirect = LoopbackRedirect::bind(None).await.unwrap();
        let error = redirect.wait(Duration::from_millis(10)).await.unwrap_err();
        assert!(matches!(error, RedirectError::TimedOut(0)), "{error}");
    }
}
