# --json is one object with a schema, whatever the command
for args in "info --json" "help --json" "help info --json" "completion bash --json"; do
    $paradl $args >out || echo "$args: rc $?"
    python3 -c '
import json, sys
o = json.load(open("out"))
print(o["schema"], sorted(o) if len(o) < 4 else "")
' || echo "$args: not JSON"
done
$paradl help completion --json
python3 -c '
import json, subprocess, os
p = os.environ["paradl"]
one = json.loads(subprocess.check_output([p, "completion", "bash", "--json"]))
print(one["script"].encode() == subprocess.check_output([p, "completion", "bash"]))
'
