// Seal messages by HPKE (RFC 9180) in base mode, with Web Crypto: DHKEM(X25519, HKDF-SHA256),
// HKDF-SHA256 and AES-128-GCM. Each message has a fresh ephemeral key.

const PROTOCOL = "HPKE-v1";
const EMPTY = new Uint8Array();
// Identifiers of the KEM, and of KEM, KDF and AEAD together.
const KEM_SUITE = joined("KEM", Uint8Array.of(0, 0x20));
const HPKE_SUITE = joined("HPKE", Uint8Array.of(0, 0x20, 0, 1, 0, 1));

/** Return the concatenation of byte arrays and texts. */
export function joined(...parts) {
  const bytes = parts.map((part) => (typeof part === "string" ? new TextEncoder().encode(part) : part));
  const made = new Uint8Array(bytes.reduce((size, each) => size + each.length, 0));
  bytes.reduce((start, each) => (made.set(each, start), start + each.length), 0);
  return made;
}

async function hmac(key, data) {
  // Web Crypto refuses an empty key; HMAC pads keys with zeros.
  const padded = key.length > 0 ? key : new Uint8Array(32);
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const imported = await crypto.subtle.importKey("raw", padded, algorithm, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", imported, data));
}

const labeledExtract = (suite, salt, label, secret) =>
  hmac(salt, joined(PROTOCOL, suite, label, secret));

/** Expand to at most 32 bytes: one block of HKDF. */
async function labeledExpand(suite, key, label, context, length) {
  const info = joined(Uint8Array.of(0, length), PROTOCOL, suite, label, context);
  return (await hmac(key, joined(info, Uint8Array.of(1)))).slice(0, length);
}

/** Return the encapsulated key, and the key and nonce of the first message. */
export async function keySchedule(recipient, info, { publicKey, privateKey }) {
  const enc = new Uint8Array(await crypto.subtle.exportKey("raw", publicKey));
  const theirs = await crypto.subtle.importKey("raw", recipient, "X25519", false, []);
  // It throws if the shared secret is zero.
  const agreed = await crypto.subtle.deriveBits({ name: "X25519", public: theirs }, privateKey, 256);
  const extracted = await labeledExtract(KEM_SUITE, EMPTY, "eae_prk", new Uint8Array(agreed));
  const ends = joined(enc, recipient);
  const shared = await labeledExpand(KEM_SUITE, extracted, "shared_secret", ends, 32);
  const context = joined(
    Uint8Array.of(0), // base mode
    await labeledExtract(HPKE_SUITE, EMPTY, "psk_id_hash", EMPTY),
    await labeledExtract(HPKE_SUITE, EMPTY, "info_hash", info),
  );
  const secret = await labeledExtract(HPKE_SUITE, shared, "secret", EMPTY);
  const key = await labeledExpand(HPKE_SUITE, secret, "key", context, 16);
  return { enc, key, nonce: await labeledExpand(HPKE_SUITE, secret, "base_nonce", context, 12) };
}

/** Seal a message for a recipient's public key; `info` is the context that must be the same. */
export async function seal(recipient, info, message) {
  const ephemeral = await crypto.subtle.generateKey("X25519", false, ["deriveBits"]);
  const { enc, key, nonce } = await keySchedule(recipient, info, ephemeral);
  const imported = await crypto.subtle.importKey("raw", key, "AES-GCM", false, ["encrypt"]);
  const sealed = await crypto.subtle.encrypt({ name: "AES-GCM", iv: nonce }, imported, message);
  return joined(enc, new Uint8Array(sealed));
}
