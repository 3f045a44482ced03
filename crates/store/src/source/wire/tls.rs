//! The TLS settings for all remote stores: rustls with the ring library, and the certificates that the
//! machine trusts.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use rustls_platform_verifier::Verifier;

/// Makes the TLS settings of a client.
///
/// The client trusts the certificates of the machine (on Linux those in `SSL_CERT_FILE` and `SSL_CERT_DIR`)
/// and those in `extra`, a PEM text. If `anyone` is set, it trusts every server. On a machine without
/// certificates each TLS handshake fails, but plain HTTP works.
pub(super) fn config(extra: Option<&str>, anyone: bool) -> Result<ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let extra = match extra {
        Some(pem) => CertificateDer::pem_slice_iter(pem.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .ok()
            .filter(|found| !found.is_empty())
            .ok_or_else(|| Error::General("the certificate is not PEM".to_owned()))?,
        None => Vec::new(),
    };
    let verifier: Arc<dyn ServerCertVerifier> = match anyone {
        true => Arc::new(Unchecked { provider: provider.clone(), refusal: None }),
        false => match Verifier::new_with_extra_roots(extra, provider.clone()) {
            Ok(verifier) => Arc::new(verifier),
            Err(refusal) => Arc::new(Unchecked { provider: provider.clone(), refusal: Some(refusal) }),
        },
    };
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth())
}

/// Decides without looking at certificates: refuses every server with the error in `refusal`, or trusts every
/// server if that is `None`.
#[derive(Debug)]
struct Unchecked {
    provider: Arc<CryptoProvider>,
    refusal: Option<Error>,
}

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match &self.refusal {
            Some(refusal) => Err(refusal.clone()),
            None => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
