//! Canonical bytes and content identifiers: DAG-CBOR and CIDv1 with SHA-256.

use cid::Cid;
use multihash::Multihash;
use serde::Serialize;
use sha2::{Digest, Sha256};

const SHA2_256: u64 = 0x12;
const RAW: u64 = 0x55;
const DAG_CBOR: u64 = 0x71;

/// Why a value has no canonical form.
#[derive(Debug, thiserror::Error)]
#[error("this value has no canonical DAG-CBOR form: {0}")]
pub struct CanonicalError(String);

/// Encodes a value as canonical DAG-CBOR: keys sorted, shortest forms, no NaN.
///
/// # Errors
/// Fails on values that DAG-CBOR excludes, such as non-finite numbers.
pub fn to_dag_cbor<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, CanonicalError> {
    serde_ipld_dagcbor::to_vec(value).map_err(|e| CanonicalError(e.to_string()))
}

/// Decodes canonical DAG-CBOR.
///
/// # Errors
/// Fails on bytes that are no DAG-CBOR or of another shape.
pub fn from_dag_cbor<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, CanonicalError> {
    serde_ipld_dagcbor::from_slice(bytes).map_err(|e| CanonicalError(e.to_string()))
}

/// Returns the SHA-256 digest of bytes.
#[must_use]
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Returns the SHA-256 digest as 64 lower-case hexadecimal characters.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(&sha256(bytes))
}

fn cid_of(codec: u64, bytes: &[u8]) -> Option<Cid> {
    Multihash::<64>::wrap(SHA2_256, &sha256(bytes))
        .ok()
        .map(|hash| Cid::new_v1(codec, hash))
}

/// Returns the CID (raw codec) of a file's bytes, as attachments use it.
#[must_use]
pub fn raw_cid(bytes: &[u8]) -> String {
    cid_of(RAW, bytes).map_or_else(String::new, |cid| cid.to_string())
}

/// Returns the CID of a value's canonical DAG-CBOR, as tool documents use it.
///
/// # Errors
/// Fails where [`to_dag_cbor`] does.
pub fn dag_cbor_cid<T: Serialize + ?Sized>(value: &T) -> Result<String, CanonicalError> {
    let bytes = to_dag_cbor(value)?;
    Ok(cid_of(DAG_CBOR, &bytes).map_or_else(String::new, |cid| cid.to_string()))
}

/// Returns the SHA-256 digest inside a CIDv1, as hexadecimal text: the name of its blob.
#[must_use]
pub fn cid_digest_hex(text: &str) -> Option<String> {
    let cid = Cid::try_from(text).ok()?;
    (cid.hash().code() == SHA2_256).then(|| data_encoding::HEXLOWER.encode(cid.hash().digest()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn key_order_does_not_change_the_identity() {
        let a = json!({"b": 1, "aa": [1.5, null, "x"], "c": {"z": true, "y": -3}});
        let b = json!({"c": {"y": -3, "z": true}, "aa": [1.5, null, "x"], "b": 1});
        assert_eq!(to_dag_cbor(&a).unwrap(), to_dag_cbor(&b).unwrap());
        let back: serde_json::Value = from_dag_cbor(&to_dag_cbor(&a).unwrap()).unwrap();
        assert_eq!(back, a);
    }

    #[test]
    fn struct_fields_are_sorted_like_map_keys() {
        #[derive(Serialize)]
        struct Unsorted {
            zz: u8,
            a: u8,
        }
        assert_eq!(
            to_dag_cbor(&Unsorted { zz: 1, a: 2 }).unwrap(),
            to_dag_cbor(&json!({"a": 2, "zz": 1})).unwrap()
        );
    }

    #[test]
    fn the_empty_file_has_its_well_known_cid() {
        assert_eq!(
            raw_cid(b""),
            "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku"
        );
        assert_eq!(cid_digest_hex(&raw_cid(b"")).unwrap(), sha256_hex(b""));
    }
}
