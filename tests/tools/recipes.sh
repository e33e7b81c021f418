#!/bin/bash
# Recipes that cannot be tried here: the syntax, and that they are of this
# version and know the options that CMake knows.
cd "$(dirname "$0")/../.." || exit 5
bad=0
complain() { echo "$*"; bad=1; }
version=$(sed -n 's/^project(paradl VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
python3 - <<'PY' || complain "packaging/spack/package.py: no Python"
compile(open("packaging/spack/package.py").read(), "package.py", "exec")
PY
/usr/bin/python3 - <<'PY' || complain "packaging/conda/meta.yaml: not readable"
import re
import sys
try:
    import yaml
except ImportError:
    sys.exit(print("recipes: no python3-yaml: conda's is not read"))
text = open("packaging/conda/meta.yaml").read()
text = re.sub(r"{%.*?%}", "", text)                 # as conda sees it
text = re.sub(r"{{\s*(.*?)\s*}}", lambda m: re.sub(r"\W", "_", m[1]), text)
found = yaml.safe_load(text)
for part, names in (("build", ("script", "number")), ("package", ("name", "version")),
                    ("requirements", ("build", "host", "run")), ("source", ("path",))):
    for name in names:
        if name not in found.get(part, {}):
            sys.exit(f"packaging/conda/meta.yaml: no {part}/{name}")
PY
grep -q "set version = \"$version\"" packaging/conda/meta.yaml ||
    complain "packaging/conda/meta.yaml is not of $version"
grep -q "paradl-$version.tar.gz" packaging/spack/package.py ||
    complain "packaging/spack/package.py is not of $version"
grep -q "^paradl ($version-" debian/changelog ||
    complain "debian/changelog is not of $version"
grep -q "\"$version\"" python/paradl/_version.py ||
    complain "python/paradl/_version.py is not of $version"
grep -q "^## $version" CHANGELOG.md || complain "CHANGELOG.md has no $version"
for option in $(grep -oh 'PDL_[A-Z_]*' packaging/spack/package.py \
    packaging/conda/meta.yaml debian/rules tools/pep517.py | sort -u); do
    case $option in PDL_NINJA | PDL_WHEEL_BUILD | PDL_WHEEL_LIBRARY) continue ;; esac
    grep -rqE "(option|set)\($option[ )]" CMakeLists.txt cmake ||
        complain "CMake knows no $option"
done
for file in $(grep -o '/debs/\|tools/[a-z.]*\|packaging/[A-Za-z]*' packaging/Containerfile | grep -v debs); do
    [ -e "$file" ] || complain "packaging/Containerfile: no $file"
done
[ $bad = 0 ] && echo "recipes: of $version, and readable"
exit $bad
