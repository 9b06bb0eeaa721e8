(function () {
  "use strict";
  var seconds = Number(document.documentElement.dataset.refresh);
  if (!seconds) return;
  var main = document.getElementById("main");
  var stale = document.getElementById("stale");
  function renew() {
    if (document.hidden) { setTimeout(renew, seconds * 1000); return; }
    fetch(location.href, { credentials: "same-origin" }).then(function (answer) {
      if (!answer.ok) throw new Error("status " + answer.status);
      return answer.text();
    }).then(function (text) {
      var next = new DOMParser().parseFromString(text, "text/html");
      var fresh = next.getElementById("main");
      if (!fresh) throw new Error("no page");
      var field = document.getElementById("q");
      var typed = field && field.value;
      var focused = document.activeElement && main.contains(document.activeElement) ? document.activeElement.id : "";
      main.querySelectorAll("details[open]").forEach(function (open) {
        var same = open.id && next.getElementById(open.id);
        if (same) same.open = true;
      });
      main.replaceChildren.apply(main, Array.from(fresh.childNodes));
      document.title = next.title;
      document.querySelector("header .meta").replaceWith(next.querySelector("header .meta"));
      field = document.getElementById("q");
      if (field && typed !== null) field.value = typed;
      if (focused && document.getElementById(focused)) document.getElementById(focused).focus({ preventScroll: true });
      stale.hidden = true;
    }).catch(function (problem) {
      stale.textContent = "The daemon does not answer (" + problem.message + "): what you see is old.";
      stale.hidden = false;
    }).finally(function () { setTimeout(renew, seconds * 1000); });
  }
  setTimeout(renew, seconds * 1000);
})();
