"""Certificates: a cache of proofs, kept beside the rules with hashes of all that each proof depends on."""

from verify.certificates.certificate import (
    Certificate,
    CertifiedBook,
    line_hash,
    load_certificates,
    proof_from_json,
    proof_to_json,
)
from verify.certificates.kernel_digest import core_hash, kernel_hash, rule_analysis_hash, rule_kernel_hash
from verify.certificates.operator_digest import operator_digest

__all__ = [
    "Certificate", "CertifiedBook", "core_hash", "kernel_hash", "line_hash", "load_certificates", "operator_digest",
    "proof_from_json", "proof_to_json", "rule_analysis_hash", "rule_kernel_hash",
]  # fmt: skip
