-- Looks at a queue. ARGV: part, name, a member or an empty text, `whole` or `around`. Answers: the view.
local shown = view(ARGV[1], ARGV[2], ARGV[3], ARGV[4] == 'whole')
for _, lives in pairs(known) do
  if not lives then
    -- What is left out as dead stays dead, also if the server's clock is set back behind this. A user that may only
    -- read is granted nothing by what it sees.
    pcall(function()
      allow_without_memory()
      keep_clock()
    end)
    break
  end
end
return shown
