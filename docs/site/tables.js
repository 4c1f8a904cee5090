// Wide tables scroll in a frame that the theme makes; let the keyboard reach it.
function focusable() {
  document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])").forEach((frame) => { frame.tabIndex = 0; });
}
new MutationObserver(focusable).observe(document.body, { childList: true, subtree: true });
focusable();
