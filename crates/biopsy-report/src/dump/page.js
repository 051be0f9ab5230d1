// What a page of a dump gains by a script: search in stacks, open and close all, and opening what a link leads to.
(() => {
  'use strict';
  const stacks = [...document.querySelectorAll('details.stack')];
  const search = document.getElementById('search');
  const matches = document.getElementById('matches');
  document.querySelector('.tools').hidden = false;

  const texts = stacks.map((stack) => stack.textContent.toLowerCase());
  const opened = stacks.map((stack) => stack.open);
  const find = () => {
    const wanted = search.value.trim().toLowerCase();
    let shown = 0;
    stacks.forEach((stack, index) => {
      const hit = !wanted || texts[index].includes(wanted);
      stack.hidden = !hit;
      stack.open = wanted ? hit && shown < 20 : opened[index];
      if (hit) shown += 1;
      for (const frame of stack.querySelectorAll('.frames li')) {
        frame.classList.toggle('hit', Boolean(wanted) && frame.textContent.toLowerCase().includes(wanted));
      }
    });
    matches.textContent = wanted ? `${shown} of ${stacks.length} groups` : '';
  };
  let waiting = 0;
  search.addEventListener('input', () => {
    clearTimeout(waiting);
    waiting = setTimeout(find, 120);
  });
  const all = (open) => () => {
    for (const stack of stacks) if (!stack.hidden) stack.open = open;
  };
  document.getElementById('open').addEventListener('click', all(true));
  document.getElementById('close').addEventListener('click', all(false));

  const follow = () => {
    const target = location.hash.startsWith('#stack-') && document.getElementById(location.hash.slice(1));
    if (target) {
      target.hidden = false;
      target.open = true;
      target.scrollIntoView();
    }
  };
  window.addEventListener('hashchange', follow);
  follow();
})();
